package httpguard_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

// unsized hides how long a body is, so that it is sent in chunks.
func unsized(body string) sent {
	return func(r *http.Request) {
		r.Body, r.GetBody, r.ContentLength = io.NopCloser(struct{ io.Reader }{strings.NewReader(body)}), nil, -1
	}
}

// echo answers with the body that it was given.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	w.WriteHeader(201)
	_, _ = w.Write(body)
}

func TestTheHandlerGetsTheBodyWhole(t *testing.T) {
	for name, body := range map[string]string{"none": "", "a little": "x", "to the limit": strings.Repeat("x", 1<<20)} {
		for how, changes := range map[string][]sent{"sized": nil, "in chunks": {unsized(body)}} {
			t.Run(name+", "+how, func(t *testing.T) {
				g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
					if want := int64(len(body)); how == "sized" && r.ContentLength != want {
						t.Errorf("the handler is told of %d bytes, want %d", r.ContentLength, want)
					}
					echo(w, r)
				})
				for n := range 2 {
					if got := g.send(t, "k", body, changes...); got.status != 201 || got.body != body || got.replayed() != (n == 1) {
						t.Errorf("answer %d is %d with %d bytes, a replay: %t", n, got.status, len(got.body), got.replayed())
					}
					changes = nil // sized and in chunks are one request
				}
			})
		}
	}
}

func TestABodyOverTheLimitIsRefusedAndNothingRuns(t *testing.T) {
	over := strings.Repeat("x", 101)
	for name, changes := range map[string][]sent{"sized": nil, "in chunks": {unsized(over)}} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, startKeeper(t), httpguard.Config{MaxRequestBytes: 50}, echo, httpguard.WithMaxRequestBytes(100))
			refusal(t, g.send(t, "k", over, changes...), http.StatusRequestEntityTooLarge, "urn:oncekeeper:request-too-large")
			if g.runs() != 0 || g.guard.Stats() != (httpguard.Stats{Refused: 1}) {
				t.Errorf("%d runs, counted %+v", g.runs(), g.guard.Stats())
			}
			mustBe(t, g.send(t, "k", over[:100]), 201) // the key is free
		})
	}
}

// raw sends lines as they are, and gives the answer as it comes.
func raw(t *testing.T, g *guarded, lines ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", g.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func statusLine(t *testing.T, answer *bufio.Reader) string {
	t.Helper()
	line, err := answer.ReadString('\n')
	if err != nil {
		t.Fatalf("there is no answer: %v", err)
	}
	return strings.TrimSpace(line)
}

func TestABodyIsAskedForOnlyWhereItWillBeRead(t *testing.T) {
	for name, c := range map[string]struct{ key, size, want string }{
		"a good key":       {`"k"`, "3", "HTTP/1.1 100 Continue"},
		"a bad key":        {`"k`, "3", "HTTP/1.1 400 Bad Request"},
		"a body too large": {`"k"`, "2000000", "HTTP/1.1 413 Request Entity Too Large"},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, startKeeper(t), httpguard.Config{}, echo)
			conn, answer := raw(t, g, "POST / HTTP/1.1", "Host: x", "Idempotency-Key: "+c.key, "Content-Length: "+c.size, "Expect: 100-continue", "", "")
			if got := statusLine(t, answer); got != c.want {
				t.Fatalf("the answer is %q, want %q", got, c.want)
			}
			if c.size != "3" || c.key != `"k"` {
				return
			}
			statusLine(t, answer) // the blank one
			fmt.Fprint(conn, "abc")
			if got := statusLine(t, answer); got != "HTTP/1.1 201 Created" {
				t.Errorf("then the answer is %q", got)
			}
		})
	}
}

func TestABodyThatDoesNotArriveWholeIsNotRun(t *testing.T) {
	g := serve(t, startKeeper(t), httpguard.Config{}, echo)
	_, answer := raw(t, g, "POST / HTTP/1.1", "Host: x", `Idempotency-Key: "k"`, "Transfer-Encoding: chunked", "", "3", "abc", "zz", "", "")
	if got := statusLine(t, answer); got != "HTTP/1.1 400 Bad Request" {
		t.Errorf("a broken chunk is answered %q", got)
	}
	conn, answer := raw(t, g, "POST / HTTP/1.1", "Host: x", `Idempotency-Key: "k"`, "Content-Length: 10", "", "abc")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := statusLine(t, answer); got != "HTTP/1.1 400 Bad Request" {
		t.Errorf("a body that is cut is answered %q", got)
	}
	if g.runs() != 0 || g.guard.Stats().Refused != 2 {
		t.Errorf("%d runs, counted %+v", g.runs(), g.guard.Stats())
	}
}

func TestARequestsTrailersReachTheHandler(t *testing.T) {
	g := serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		fmt.Fprint(w, " ", r.Trailer.Get("X-Sum"))
	})
	got := g.send(t, "k", "", unsized("abc"), func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {"42"}} })
	if got.status != 200 || got.body != "abc 42" {
		t.Errorf("the answer is %d %q", got.status, got.body)
	}
}

// A guard behind what parsed a form would take every form for the same request.
func TestABodyThatWasReadBeforeTheGuardIsAFault(t *testing.T) {
	k, g := startKeeper(t), &guarded{}
	h := g.handler(t, k, httpguard.Config{}, echo, nil)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("amount=5"))
	r.Header.Set("Idempotency-Key", "k")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := r.ParseForm(); err != nil {
		t.Fatal(err)
	}
	h.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || g.runs() != 0 || g.guard.Stats() != (httpguard.Stats{Unavailable: 1}) {
		t.Errorf("it is answered %d after %d runs; counted %+v", w.Code, g.runs(), g.guard.Stats())
	}
}

func TestABodyThatIsReadWhollyNeedsNoLength(t *testing.T) {
	// As net/http/httptest and in-process callers make them.
	k, g := startKeeper(t), &guarded{}
	h := g.handler(t, k, httpguard.Config{}, echo, nil)
	for n, body := range []io.ReadCloser{nil, http.NoBody, io.NopCloser(strings.NewReader("x"))} {
		w := httptest.NewRecorder()
		r := &http.Request{Method: http.MethodPost, URL: mustParse(t, "/"), Header: http.Header{"Idempotency-Key": {fmt.Sprint("k", n)}}, Body: body, ContentLength: -1}
		if body == nil {
			r.Body = http.NoBody
		}
		h.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code != 201 {
			t.Errorf("body %d is answered %d %s", n, w.Code, w.Body)
		}
	}
}
