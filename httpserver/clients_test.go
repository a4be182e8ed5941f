package httpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/host/clients"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/protocol"
)

const (
	listTools  = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	modernList = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
)

// known are the named clients of a test and their tokens.
type known struct {
	*clients.Directory
	tokens map[string]string
	stated map[string]config.Client
}

func newKnown(t *testing.T, names ...string) *known {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	k := &known{
		clients.New(ctx, nil, func() {}, slog.New(slog.DiscardHandler)),
		map[string]string{},
		map[string]config.Client{},
	}
	for _, name := range names {
		k.give(name)
	}
	return k
}

// give gives a client a new token.
func (k *known) give(name string) {
	k.tokens[name] = clienttoken.New()
	k.stated[name] = config.Client{TokenHash: clienttoken.Hash(k.tokens[name])}
	k.Set(k.stated)
}

func (k *known) remove(name string) {
	delete(k.stated, name)
	k.Set(k.stated)
}

func (k *known) header(name string) http.Header { return authorization("Bearer " + k.tokens[name]) }

// modern returns h with the headers of an MCP 2026-07-28 request.
func modern(h http.Header, method string) http.Header {
	h = h.Clone()
	h.Set("MCP-Protocol-Version", protocol.MCP20260728)
	h.Set("Mcp-Method", method)
	return h
}

func TestClientIsTheCaller(t *testing.T) {
	k, b := newKnown(t, "ada", "bob"), newFake()
	url := "http://" + serve(t, Options{Backend: b, Clients: k}, nil) + "/mcp"

	// Clients of both protocol eras are served, and a session belongs to its client.
	sessions := map[string]http.Header{}
	for _, name := range []string{"ada", "bob"} {
		r := send(t, http.MethodPost, url, modern(k.header(name), "tools/list"), modernList)
		if r.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(r.Body)
			t.Fatalf("%s: %s %s", name, r.Status, body)
		}
		if caller := get(t, b.callers, "the call"); caller != name {
			t.Errorf("caller %q, want %s", caller, name)
		}
		h := k.header(name)
		h.Set("Mcp-Session-Id", send(t, http.MethodPost, url, h, initialize).Header.Get("Mcp-Session-Id"))
		sessions[name] = h
		send(t, http.MethodPost, url, h, listTools)
		if caller := get(t, b.callers, "the call"); caller != name {
			t.Errorf("caller %q of a session, want %s", caller, name)
		}
	}
	others := k.header("bob")
	others.Set("Mcp-Session-Id", sessions["ada"].Get("Mcp-Session-Id"))
	if r := send(t, http.MethodPost, url, others, listTools); r.StatusCode != http.StatusNotFound {
		t.Errorf("the session of another client: %s", r.Status)
	}

	// A request without a valid token is refused, also on loopback.
	reached := b.reached.Load()
	for name, h := range map[string]http.Header{
		"none":                nil,
		"empty":               authorization(""),
		"no token":            authorization("Bearer "),
		"half":                authorization("Bearer " + k.tokens["ada"][:20]),
		"another":             authorization("Bearer " + clienttoken.New()),
		"the hash":            authorization("Bearer " + k.stated["ada"].TokenHash),
		"the name":            authorization("Bearer ada"),
		"no scheme":           authorization(k.tokens["ada"]),
		"Basic":               authorization("Basic " + k.tokens["ada"]),
		"two":                 authorization("Bearer " + k.tokens["ada"] + ", Bearer " + k.tokens["bob"]),
		"a list":              {"Authorization": {"Bearer x", "Bearer " + k.tokens["ada"]}},
		"the first of a list": {"Authorization": {"Bearer " + k.tokens["ada"], "Bearer x"}},
		"twice":               {"Authorization": {"Bearer " + k.tokens["ada"], "Bearer " + k.tokens["ada"]}},
		"long":                authorization("Bearer " + strings.Repeat("x", 32<<10)),
		"more":                authorization("Bearer " + k.tokens["ada"] + "x"),
		"the prefix":          authorization("Bearer exthost_"),
	} {
		if r := send(t, http.MethodPost, url, h, initialize); r.StatusCode != http.StatusUnauthorized ||
			r.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
	for range 3000 {
		if r := send(t, http.MethodPost, url, authorization("Bearer "+clienttoken.New()),
			initialize); r.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a token of nobody: %s", r.Status)
		}
	}
	if b.reached.Load() != reached {
		t.Error("a refused request reached the backend")
	}
	lower := authorization("bearer   " + k.tokens["ada"]) // RFC 9110: the scheme in either case, blanks behind it
	if r := send(t, http.MethodPost, url, lower, initialize); r.StatusCode != http.StatusOK {
		t.Errorf("another spelling of Bearer: %s", r.Status)
	}
}

// TestClientIsRemoved checks that the streams of a removed client end, in either era and over SSE, and no others.
func TestClientIsRemoved(t *testing.T) {
	for name, end := range map[string]func(*known){
		"removed": func(k *known) { k.remove("ada") },
		"rotated": func(k *known) { k.give("ada") },
	} {
		t.Run(name, func(t *testing.T) {
			k, b := newKnown(t, "ada", "bob"), newFake()
			host := "http://" + serve(t, Options{Backend: b, Clients: k}, nil)
			old := k.header("ada")
			session := func(h http.Header) http.Header {
				h = h.Clone()
				h.Set("Mcp-Session-Id",
					send(t, http.MethodPost, host+"/mcp", h, initialize).Header.Get("Mcp-Session-Id"))
				return h
			}
			hers, his := session(old), session(k.header("bob"))
			ended := map[string]<-chan error{
				"GET /mcp": stream(t, http.MethodGet, host+"/mcp", hers, ""),
				"GET /sse": stream(t, http.MethodGet, host+"/sse", old, ""),
				"listen": stream(t, http.MethodPost, host+"/mcp", modern(old, "subscriptions/listen"),
					`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`),
			}
			remains := stream(t, http.MethodGet, host+"/mcp", his, "")
			call := b.hang(t, host+"/mcp", hers)
			stays := b.hang(t, host+"/mcp", his)

			end(k)
			for what, c := range ended {
				get(t, c, what+" to end")
			}
			get(t, call, "the call to end")
			for what, h := range map[string]http.Header{
				"her session":       hers,
				"her token":         old,
				"her token, modern": modern(old, "tools/list"),
			} {
				if r := send(t, http.MethodPost, host+"/mcp", h, listTools); r.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s: %s", what, r.Status)
				}
			}
			if name == "rotated" {
				again := k.header("ada")
				if r := send(t, http.MethodPost, host+"/mcp", again, initialize); r.StatusCode != http.StatusOK {
					t.Errorf("the new token: %s", r.Status)
				}
				again.Set("Mcp-Session-Id", hers.Get("Mcp-Session-Id"))
				if r := send(t, http.MethodPost, host+"/mcp", again, listTools); r.StatusCode != http.StatusNotFound {
					t.Errorf("the session of the old token: %s", r.Status)
				}
			}

			close(b.finish)
			if answer := get(t, stays, "the call of the other"); !strings.Contains(answer, `"content":[]`) {
				t.Errorf("the call of the other client was answered %s", answer)
			}
			select {
			case err := <-remains:
				t.Errorf("the stream of the other client ended: %v", err)
			default:
			}
			if r := send(t, http.MethodPost, host+"/mcp", his, listTools); r.StatusCode != http.StatusOK {
				t.Errorf("the session of the other client: %s", r.Status)
			}
		})
	}
}

// stream opens an event stream and returns once it has begun. ended receives its end.
func stream(t *testing.T, method, url string, h http.Header, body string) (ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = h.Clone()
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s %s: %s %s", method, url, answer.Status, text)
	}
	over := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, bufio.NewReader(answer.Body))
		over <- err
	}()
	return over
}

// TestClientKeepsItsOldToken checks that an old token is accepted until it expires, and that its streams end then.
func TestClientKeepsItsOldToken(t *testing.T) {
	k, b := newKnown(t, "ada"), newFake()
	url := "http://" + serve(t, Options{Backend: b, Clients: k}, nil) + "/mcp"
	old, was := k.header("ada"), k.stated["ada"].TokenHash
	h := old.Clone()
	h.Set("Mcp-Session-Id", send(t, http.MethodPost, url, h, initialize).Header.Get("Mcp-Session-Id"))
	ended := stream(t, http.MethodGet, url, h, "")
	fresh := clienttoken.New()
	rotated := func(until time.Time) {
		k.stated["ada"] = config.Client{
			TokenHash:    clienttoken.Hash(fresh),
			OldTokenHash: was,
			OldUntil:     until.UTC().Format(time.RFC3339),
		}
		k.Set(k.stated)
	}
	rotated(time.Now().Add(time.Hour))
	for what, h := range map[string]http.Header{
		"old":                 old,
		"old, in its session": h,
		"new":                 authorization("Bearer " + fresh),
	} {
		if r := send(t, http.MethodPost, url, h, initialize); r.StatusCode != http.StatusOK &&
			r.StatusCode != http.StatusBadRequest {
			body, _ := io.ReadAll(r.Body)
			t.Errorf("%s: %s %s", what, r.Status, body)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("the stream of the old token ended early: %v", err)
	default:
	}
	rotated(time.Now().Add(2 * time.Second))
	get(t, ended, "the stream to end with the old token")
	if r := send(t, http.MethodPost, url, old, initialize); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the old token after its time: %s", r.Status)
	}
	if r := send(t, http.MethodPost, url, authorization("Bearer "+fresh), initialize); r.StatusCode != http.StatusOK {
		t.Errorf("the new token: %s", r.Status)
	}
}

// TestClientFirstAndLast checks that a server without tokens requires one from the first client on, and still does
// after the last client is removed.
func TestClientFirstAndLast(t *testing.T) {
	k, b := newKnown(t), newFake()
	url := "http://" + serve(t, Options{Backend: b, Clients: k}, nil) + "/mcp"
	h := http.Header{"Mcp-Session-Id": {send(t, http.MethodPost, url, nil, initialize).Header.Get("Mcp-Session-Id")}}
	ended := stream(t, http.MethodGet, url, h, "")
	if r := send(t, http.MethodPost, url, authorization("Bearer "+clienttoken.New()),
		initialize); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token of a client that is gone, where none is needed: %s", r.Status)
	}
	k.give("ada")
	get(t, ended, "the stream without a token to end")
	for range 2 {
		for what, h := range map[string]http.Header{"a new one": nil, "one with a session": h} {
			if r := send(t, http.MethodPost, url, h, listTools); r.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s without a token: %s", what, r.Status)
			}
		}
		k.remove("ada")
	}
}

// TestClientAbroad checks that only tokens of clients let other machines in.
func TestClientAbroad(t *testing.T) {
	k := newKnown(t, "ada")
	url := "http://" + serve(t, Options{Backend: newFake(), Clients: k},
		func(l net.Listener) net.Listener { return abroad{l} }) + "/mcp"
	for name, want := range map[string]int{"ada": http.StatusOK, "bob": http.StatusUnauthorized} {
		if r := send(t, http.MethodPost, url, k.header(name), initialize); r.StatusCode != want {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
	k.remove("ada")
	if r := send(t, http.MethodPost, url, nil, initialize); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without clients: %s", r.Status)
	}
}

// TestClientNameIsNoSubject checks that an access token with a client's name as its subject is refused.
func TestClientNameIsNoSubject(t *testing.T) {
	i, k := newIssuer(t), newKnown(t, "ada")
	url := "http://" + serve(t,
		Options{Backend: newFake(), Clients: k, OAuth: &OAuth{Resource: resource, Issuer: i.url}}, nil) + "/mcp"
	want := map[string]int{"ada": http.StatusUnauthorized, "bob": http.StatusOK}
	for range 2 {
		for subject, status := range want {
			if r := send(t, http.MethodPost, url, i.header(subject, resource, "", time.Hour),
				initialize); r.StatusCode != status {
				t.Errorf("the subject %s: %s", subject, r.Status)
			}
		}
		if r := send(t, http.MethodPost, url, k.header("ada"), initialize); r.StatusCode != http.StatusOK {
			t.Errorf("the client: %s", r.Status)
		}
		k.give("bob")
		want["bob"] = http.StatusUnauthorized
	}
}

// TestClientTakesASubjectsName checks that a subject's streams, and no others, end when a client gets the name of the
// subject, and that the client cannot use the subject's session.
func TestClientTakesASubjectsName(t *testing.T) {
	i, k, b := newIssuer(t), newKnown(t, "bob"), newFake()
	host := "http://" + serve(t, Options{Backend: b, Clients: k, OAuth: &OAuth{Resource: resource, Issuer: i.url}}, nil)
	hers, others := i.header("ada", resource, "", time.Hour), i.header("Ada", resource, "", time.Hour)
	ended := map[string]<-chan error{}
	var stay []<-chan error
	for name, h := range map[string]http.Header{"ada": hers, "Ada": others} {
		h.Set("Mcp-Session-Id", send(t, http.MethodPost, host+"/mcp", h, initialize).Header.Get("Mcp-Session-Id"))
		get, sse := stream(t, http.MethodGet, host+"/mcp", h, ""), stream(t, http.MethodGet, host+"/sse", h, "")
		if name == "ada" {
			ended["GET /mcp"], ended["GET /sse"] = get, sse
		} else {
			stay = append(stay, get, sse)
		}
	}
	call := b.hang(t, host+"/mcp", hers)
	k.give("ada")
	for what, c := range ended {
		get(t, c, what+" to end")
	}
	get(t, call, "the call to end")
	h := k.header("ada")
	h.Set("Mcp-Session-Id", hers.Get("Mcp-Session-Id"))
	if r := send(t, http.MethodPost, host+"/mcp", h, listTools); r.StatusCode != http.StatusNotFound {
		t.Errorf("the session of the subject, with the client's token: %s", r.Status)
	}
	for _, c := range stay {
		select {
		case err := <-c:
			t.Errorf("a stream of another subject ended: %v", err)
		default:
		}
	}
	if r := send(t, http.MethodPost, host+"/mcp", others, listTools); r.StatusCode != http.StatusOK {
		t.Errorf("the session of another subject: %s", r.Status)
	}
}

// TestSubjectIsNoOtherCaller checks that subjects named like callers of the host itself are refused.
func TestSubjectIsNoOtherCaller(t *testing.T) {
	i := newIssuer(t)
	url := "http://" + serve(t, Options{Backend: newFake(), OAuth: &OAuth{Resource: resource, Issuer: i.url}},
		nil) + "/mcp"
	for subject, status := range map[string]int{
		"":                  http.StatusUnauthorized,
		"token":             http.StatusUnauthorized,
		"operator":          http.StatusUnauthorized,
		"stdio:17-abcdefgh": http.StatusUnauthorized,
		"stdio:":            http.StatusUnauthorized,
		"stdio":             http.StatusOK,
		"client:ada":        http.StatusOK,
		"token ":            http.StatusOK,
	} {
		if r := send(t, http.MethodPost, url, i.header(subject, resource, "", time.Hour),
			initialize); r.StatusCode != status {
			t.Errorf("the subject %q: %s", subject, r.Status)
		}
	}
}

// BenchmarkClientToken compares a token with those of many clients: it takes the same time whether the first client's
// token matches, the last one's or none.
func BenchmarkClientToken(b *testing.B) {
	d, stated := clients.New(b.Context(), nil, func() {}, slog.New(slog.DiscardHandler)), map[string]config.Client{}
	tokens := map[string]string{"nobody": clienttoken.New()}
	for n := range 1024 {
		token := clienttoken.New()
		tokens[fmt.Sprint(n)] = token
		stated[fmt.Sprintf("c%d", n)] = config.Client{TokenHash: clienttoken.Hash(token)}
	}
	d.Set(stated)
	for _, who := range []string{"0", "1023", "nobody"} {
		b.Run(who, func(b *testing.B) {
			for b.Loop() {
				d.ByToken(tokens[who])
			}
		})
	}
}

// TestScopeOfMetrics has a client whose token opens the metrics alone, also with a default toolset, which other clients
// are refused the metrics for. Its session ends when it gets the scope.
func TestScopeOfMetrics(t *testing.T) {
	b, k := newFake(), newKnown(t, "ada", "prometheus")
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "numbers") })
	o := Options{Backend: b, Clients: k, Metrics: metrics, Toolset: "review", Serves: one}
	url := "http://" + serve(t, o, nil)
	k.stated["prometheus"] = config.Client{TokenHash: k.stated["prometheus"].TokenHash, Scope: config.ScopeMetrics}
	k.Set(k.stated)
	for _, c := range []struct {
		name, method, path string
		want               int
	}{
		{"prometheus", http.MethodGet, "/metrics", http.StatusOK},
		{"prometheus", http.MethodGet, "/readyz", http.StatusOK},
		{"prometheus", http.MethodPost, "/mcp", http.StatusForbidden},
		{"prometheus", http.MethodPost, "/mcp/", http.StatusForbidden},
		{"prometheus", http.MethodGet, "/metrics/", http.StatusForbidden},
		{"prometheus", http.MethodGet, "//metrics", http.StatusForbidden},
		{"prometheus", http.MethodGet, "/t/review/mcp", http.StatusForbidden},
		{"prometheus", http.MethodGet, "/d/mcp", http.StatusForbidden},
		{"prometheus", http.MethodGet, "/api/v1/status", http.StatusForbidden},
		{"prometheus", http.MethodGet, "/sse", http.StatusForbidden},
		{"ada", http.MethodGet, "/metrics", http.StatusForbidden}, // it has the default toolset
	} {
		r := send(t, c.method, url+c.path, k.header(c.name), initialize)
		r.Body.Close()
		if r.StatusCode != c.want {
			t.Errorf("%s %s of %s: %s, want %d", c.method, c.path, c.name, r.Status, c.want)
		}
	}
	if n := b.reached.Load(); n != 0 {
		t.Errorf("%d requests reached the backend", n)
	}
	if _, ok := k.ByName("prometheus"); ok {
		t.Error("it is let in by its name alone")
	}
	until, ok := k.ByName("ada")
	if !ok {
		t.Fatal("ada is not let in by her name")
	}
	k.stated["ada"] = config.Client{TokenHash: k.stated["ada"].TokenHash, Scope: config.ScopeMetrics}
	k.Set(k.stated)
	if until.Err() == nil {
		t.Error("her sessions go on with another scope")
	}
}

// leaving are clients that are removed while their toolset is looked up.
type leaving struct{ *known }

func (l leaving) Toolset(name string) string {
	l.remove(name)
	return l.known.Toolset(name)
}

// TestClientThatLeavesSeesNothing checks that a client removed during its own request is not taken for a client
// without a toolset, which would see everything.
func TestClientThatLeavesSeesNothing(t *testing.T) {
	b, k := newFake(), newKnown(t, "ada")
	url := "http://" + serve(t, Options{Backend: b, Clients: leaving{k}}, nil) + "/mcp"
	if r := send(t, http.MethodPost, url, modern(k.header("ada"), "tools/list"),
		modernList); r.StatusCode != http.StatusUnauthorized || b.reached.Load() != 0 {
		t.Errorf("it is answered %s, and %d requests were let in", r.Status, b.reached.Load())
	}
}
