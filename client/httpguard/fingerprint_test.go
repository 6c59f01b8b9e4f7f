package httpguard_test

import (
	"net/http"
	"testing"

	"github.com/oncekeeper/oncekeeper/client/httpguard"
)

// asked is a request as it is told from another.
type asked struct {
	method, target, content, encoding, body string
}

func (a asked) send(t *testing.T, g *guarded) reply {
	t.Helper()
	return g.send(t, "k", a.body, func(r *http.Request) {
		if a.method != "" {
			r.Method = a.method
		}
		if a.target != "" {
			parsed, err := r.URL.Parse(a.target)
			if err != nil {
				t.Fatal(err)
			}
			r.URL = parsed
		}
		r.Header.Set("Content-Type", "application/json")
		if a.content != "" {
			r.Header.Set("Content-Type", a.content)
		}
		if a.encoding != "" {
			r.Header.Set("Content-Encoding", a.encoding)
		}
	})
}

// Case 8.
func TestARetryIsToldFromAnotherRequest(t *testing.T) {
	const mismatch = http.StatusUnprocessableEntity
	for name, c := range map[string]struct {
		first, second asked
		want          int
	}{
		"the same":                           {asked{body: `{"a": 1}`}, asked{body: `{"a": 1}`}, 201},
		"members in another order":           {asked{body: `{"a": 1, "b": {"c": 2, "d": 3}}`}, asked{body: `{"b":{"d":3,"c":2},"a":1}`}, 201},
		"other white space and escapes":      {asked{body: `{"a": "\u0041"}`}, asked{body: "{\n\"a\":\"A\"}"}, 201},
		"an array in another order":          {asked{body: `[1, 2]`}, asked{body: `[2, 1]`}, mismatch},
		"integers above 2^53":                {asked{body: `9007199254740992`}, asked{body: `9007199254740993`}, mismatch},
		"another value":                      {asked{body: `{"a": 1}`}, asked{body: `{"a": 2}`}, mismatch},
		"a member more":                      {asked{body: `{"a": 1}`}, asked{body: `{"a": 1, "b": null}`}, mismatch},
		"JSON by suffix":                     {asked{content: "application/vnd.charge+json", body: `{"a":1,"b":2}`}, asked{content: "application/vnd.charge+json", body: `{"b":2,"a":1}`}, 201},
		"a charset on JSON":                  {asked{body: `{"a":1}`}, asked{content: `Application/JSON; charset="UTF-8"`, body: `{"a":1}`}, 201},
		"another content type":               {asked{content: "text/plain", body: `x`}, asked{content: "text/html", body: `x`}, mismatch},
		"another charset of a text":          {asked{content: "text/plain; charset=utf-8", body: `x`}, asked{content: "text/plain; charset=latin1", body: `x`}, mismatch},
		"a content type's spelling":          {asked{content: "text/plain;charset=utf-8", body: `x`}, asked{content: "TEXT/plain; Charset=utf-8", body: `x`}, 201},
		"text that reads like JSON":          {asked{content: "text/plain", body: `{"a":1,"b":2}`}, asked{content: "text/plain", body: `{"b":2,"a":1}`}, mismatch},
		"no JSON, though it says so":         {asked{body: `{"a":`}, asked{body: `{"a":`}, 201},
		"no JSON, and another":               {asked{body: `{"a":`}, asked{body: `{"a": `}, mismatch},
		"a name twice is no JSON to rely on": {asked{body: `{"a":1,"a":2}`}, asked{body: `{"a":2,"a":1}`}, mismatch},
		"an encoded body is bytes":           {asked{encoding: "gzip", body: `{"a":1,"b":2}`}, asked{encoding: "gzip", body: `{"b":2,"a":1}`}, mismatch},
		"an encoding and none":               {asked{encoding: "gzip", body: `1`}, asked{body: `1`}, mismatch},
		"an empty body":                      {asked{}, asked{}, 201},
		"an empty body and null":             {asked{}, asked{body: `null`}, mismatch},
		"another method":                     {asked{method: http.MethodPost}, asked{method: http.MethodPut}, mismatch},
		"another path":                       {asked{target: "/charges/1"}, asked{target: "/charges/2"}, mismatch},
		"a path that is escaped otherwise":   {asked{target: "/charges/a%2Fb"}, asked{target: "/charges/a/b"}, mismatch},
		"another query":                      {asked{target: "/charges?a=1"}, asked{target: "/charges?a=2"}, mismatch},
		"a query in another order":           {asked{target: "/charges?a=1&b=2"}, asked{target: "/charges?b=2&a=1"}, mismatch},
		"a query and none":                   {asked{target: "/charges?a=1"}, asked{target: "/charges"}, mismatch},
		"what moves from path to query":      {asked{target: "/charges/a?b"}, asked{target: "/charges/?ab"}, mismatch},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, startKeeper(t), httpguard.Config{}, answers(201, "charged"))
			mustBe(t, c.first.send(t, g), 201)
			got := c.second.send(t, g)
			mustBe(t, got, c.want)
			if c.want == mismatch {
				if p := refusal(t, got, mismatch, "urn:oncekeeper:fingerprint-mismatch"); p.Reason != "FINGERPRINT_MISMATCH" {
					t.Errorf("the reason is %q", p.Reason)
				}
			}
			if g.runs() != 1 {
				t.Errorf("%d runs, want one", g.runs())
			}
		})
	}
}

// Case 5, and 6: by every state.
func TestAMismatchIsToldInEveryState(t *testing.T) {
	other := asked{body: `{"amount": 6}`}
	t.Run("while it runs", func(t *testing.T) {
		var g *guarded
		g = serve(t, startKeeper(t), httpguard.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			refusal(t, other.send(t, g), 422, "urn:oncekeeper:fingerprint-mismatch")
			w.WriteHeader(201)
		})
		mustBe(t, g.charge(t, "k"), 201)
	})
	for name, status := range map[string]int{"answered": 201, "refused": 404, "released": 429, "unknown": 500} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, startKeeper(t), httpguard.Config{}, answers(status, ""))
			mustBe(t, g.charge(t, "k"), status)
			refusal(t, other.send(t, g), 422, "urn:oncekeeper:fingerprint-mismatch")
			if got := g.guard.Stats(); got.Mismatch != 1 || g.runs() != 1 {
				t.Errorf("counted %+v after %d runs", got, g.runs())
			}
		})
	}
}
