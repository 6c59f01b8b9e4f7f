package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of a panel and of what is around its lines, in pixels.
const (
	panelWidth, panelHeight     = 460, 280
	left, right, above, beneath = 64, 16, 44, 48
	titleHeight                 = 32
	columns                     = 2
)

// colours of the lines, which those who see no red or green tell apart (Okabe and
// Ito's).
var colours = []string{"#0072b2", "#d55e00", "#009e73"}

// svg draws the panels in two columns below the title. Values go up from zero, and
// places, which are sizes that grow by about the same factor, stand equally far apart.
func svg(title string, panels []panel) []byte {
	var to bytes.Buffer
	rows := (len(panels) + columns - 1) / columns
	width, height := columns*panelWidth, titleHeight+rows*panelHeight
	_, _ = fmt.Fprintf(&to, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12" fill="#222">`+"\n", width, height, width, height)
	_, _ = fmt.Fprintf(&to, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&to, 16, 21, "start", title)
	for i, p := range panels {
		_, _ = fmt.Fprintf(&to, `<g transform="translate(%d %d)">`+"\n", i%columns*panelWidth, titleHeight+i/columns*panelHeight)
		p.draw(&to)
		to.WriteString("</g>\n")
	}
	to.WriteString("</svg>\n")
	return to.Bytes()
}

func text(to *bytes.Buffer, x, y float64, anchor, words string) {
	_, _ = fmt.Fprintf(to, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(words))
}

func (p panel) draw(to *bytes.Buffer) {
	step, top := scale(p.highest())
	text(to, left, 16, "start", p.name)
	text(to, (left+panelWidth-right)/2, panelHeight-10, "middle", p.below)
	for n := 0; float64(n)*step <= top*1.001; n++ {
		value := float64(n) * step
		y := height(value, top)
		_, _ = fmt.Fprintf(to, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", left, panelWidth-right, y, y)
		text(to, left-8, y+4, "end", fmt.Sprintf("%g", math.Round(value*1e6)/1e6))
	}
	for i, name := range p.places {
		text(to, p.place(i), panelHeight-beneath+18, "middle", name)
	}
	for i, l := range p.lines {
		p.drawLine(to, l, colours[i%len(colours)], top)
		x := float64(left + 120*i)
		_, _ = fmt.Fprintf(to, `<rect x="%.1f" y="24" width="12" height="4" fill="%s"/>`+"\n", x, colours[i%len(colours)])
		text(to, x+18, 31, "start", l.name)
	}
}

func (p panel) drawLine(to *bytes.Buffer, l line, colour string, top float64) {
	var points []string
	for i, value := range l.values {
		points = append(points, fmt.Sprintf("%.1f,%.1f", p.place(i), height(value, top)))
	}
	_, _ = fmt.Fprintf(to, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
	for i, value := range l.values {
		_, _ = fmt.Fprintf(to, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %.6g</title></circle>`+"\n",
			p.place(i), height(value, top), colour, html.EscapeString(l.name+" at "+p.places[i]), value)
	}
}

// place is where along the axis the i-th size stands.
func (p panel) place(i int) float64 {
	const margin = 20
	if len(p.places) < 2 {
		return left + margin
	}
	return left + margin + float64(i)*(panelWidth-left-right-2*margin)/float64(len(p.places)-1)
}

// height is where a value stands between the axis and top.
func height(value, top float64) float64 {
	return panelHeight - beneath - value/top*(panelHeight-above-beneath)
}

func (p panel) highest() (most float64) {
	for _, l := range p.lines {
		for _, value := range l.values {
			most = max(most, value)
		}
	}
	return most
}

// scale gives the distance of the lines that values are read by, 1, 2 or 5 times a
// power of ten, and the highest of them, which no value is above.
func scale(most float64) (step, top float64) {
	if most <= 0 {
		return 1, 1
	}
	const lines = 5
	step = math.Pow(10, math.Floor(math.Log10(most/lines)))
	for _, by := range []float64{1, 2, 5, 10} {
		if step*by*lines >= most {
			step *= by
			break
		}
	}
	return step, math.Ceil(most/step) * step
}
