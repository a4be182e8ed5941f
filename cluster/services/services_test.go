package services_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster/services"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// patience bounds every wait; none is expected to last so long.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	processtest.Main(processtest.Sharded(m),
		map[string]processtest.Verb{natstest.Name: natstest.Verb, "service": serve})
}

// toolNames are the tools of the service.
const toolNames = "echo twice wrongid binary huge notresponse hang ask progress announce noted exit"

func quoted(words string) string { return `"` + strings.ReplaceAll(words, " ", `", "`) + `"` }

// serve runs a service. words are a server, the subject prefix, a file for notes, and optionally a seed. Tools are
// named after what they do wrong.
func serve(words string) {
	fields := strings.Fields(words)
	var auth []nats.Option
	nexo := len(fields) > 3 && fields[3] == "nexo"
	if len(fields) > 3 && !nexo {
		pair, err := nkeys.FromSeed([]byte(fields[3]))
		if err != nil {
			panic(err)
		}
		public, _ := pair.PublicKey()
		auth = append(auth, nats.Nkey(public, pair.Sign))
	}
	conn, err := nats.Connect(fields[0],
		append(auth, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))...)
	processtest.Check(err)
	note := func(text string) {
		f, err := os.OpenFile(fields[2], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text + "\n")
		}
		if err != nil {
			panic(err)
		}
		f.Close()
	}
	var waiting []*nats.Msg // requests of the tool hang
	_, err = conn.Subscribe(fields[1]+".rpc", func(m *nats.Msg) {
		var r struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
				Meta      json.RawMessage `json:"_meta"`
			} `json:"params"`
		}
		data := m.Data
		if nexo {
			var envelope struct{ ID, Topic, Payload string }
			if err := json.Unmarshal(data, &envelope); err != nil || len(envelope.ID) != 36 ||
				envelope.Topic != m.Subject {
				panic(fmt.Sprintf("%v: %s", err, data))
			}
			data = []byte(envelope.Payload)
		}
		if err := json.Unmarshal(data, &r); err != nil {
			panic(err)
		}
		note(r.Method + " " + r.Params.Name)
		say := func(id, text string) {
			line := `{"jsonrpc":"2.0","id":` + id + `,"result":` + text + `}`
			if nexo {
				payload, _ := json.Marshal(line)
				line = `{"id":"5e9c8d8a-9d5c-4d7e-8a6b-000000000000","topic":"` + m.Reply +
					`","reply_to":null,"payload":` + string(payload) + `}`
			}
			_ = m.Respond([]byte(line))
		}
		id := string(r.ID)
		switch r.Method {
		case "initialize":
			var tools []string
			for _, name := range strings.Fields(toolNames) {
				tools = append(tools, `{"name":"`+name+`","description":"","input_schema":{"type":"object"}}`)
			}
			say(id, `{"server_version":"1.2.3","tools":[`+strings.Join(tools, ",")+`]}`)
		case "ping":
			say(id, "{}")
		case "tools/call":
			switch r.Params.Name {
			case "echo":
				say(id, `{"content":[],"structuredContent":`+string(r.Params.Arguments)+`}`)
			case "twice":
				say(id, `"first"`)
				say(id, `"second"`)
			case "wrongid":
				say("7", `"of another"`)
			case "binary":
				_ = m.Respond([]byte{0, 255, '\n', 1})
			case "huge":
				say(id, `"`+strings.Repeat("x", 16<<20)+`"`)
			case "notresponse":
				_ = m.Respond([]byte(`["a","batch"]`))
			case "hang":
				waiting = append(waiting, m)
			case "ask":
				_ = m.Respond([]byte(`{"jsonrpc":"2.0","id":99,"method":"sampling/createMessage","params":{}}`))
				_ = m.Respond([]byte(`{"jsonrpc":"2.0","id":"x","method":"ping"}`))
				say(id, `"asked"`)
			case "progress":
				var meta struct {
					Token json.RawMessage `json:"progressToken"`
				}
				_ = json.Unmarshal(r.Params.Meta, &meta)
				_ = m.Respond([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` +
					string(meta.Token) + `,"progress":1}}`))
				_ = conn.Publish(fields[1]+".event",
					[]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+
						string(meta.Token)+`,"progress":2}}`))
				_ = conn.Flush()
				say(id, `"done"`)
			case "announce":
				_ = conn.Publish("registry.announce",
					[]byte(`{"schema_version":1,"id":"evil","version":"1.0.0","subject_prefix":"ext","capabilities":{"tools":["steal"]}}`))
				_ = conn.Publish("ext.registry.announce", []byte(`{"schema_version":1,"id":"evil","version":"1.0.0"}`))
				_ = conn.Publish(fields[1]+".event", []byte{0, 1, 2})
				say(id, `"announced"`)
			case "noted":
				for _, w := range waiting { // late answers
					_ = w.Respond([]byte(`{"jsonrpc":"2.0","id":` + idOf(w) + `,"result":"late"}`))
				}
				waiting = nil
				text, _ := os.ReadFile(fields[2])
				all, _ := json.Marshal(string(text))
				say(id, string(all))
			case "exit":
				processtest.Exit(3)
			}
		}
	})
	if err != nil {
		panic(err)
	}
	_ = conn.Flush()
	processtest.Ready()
	conn.Close()
}

func idOf(m *nats.Msg) string {
	var r struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(m.Data, &r)
	return string(r.ID)
}

// place is a NATS server, the notes of its services, and the directory of a host.
type place struct {
	t      *testing.T
	dir    string
	spec   natstest.Server
	server *processtest.Process
}

// newPlace starts the server of spec on a free port.
func newPlace(t *testing.T, spec natstest.Server) *place {
	t.Helper()
	processtest.Leaks(t)
	spec.Port = processtest.FreePorts(t, 1)[0]
	p := &place{t: t, dir: t.TempDir(), spec: spec}
	p.serve()
	return p
}

// users returns a host, which may publish to a subject, and a service.
func users(host, service, subject string) []*server.NkeyUser {
	return []*server.NkeyUser{{Nkey: host, Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{subject}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	}}, {Nkey: service}}
}

func (p *place) serve()      { p.server = p.spec.Spawn(p.t) }
func (p *place) url() string { return p.spec.URL() }

func (p *place) service(seed ...string) *processtest.Process {
	p.t.Helper()
	return processtest.Spawn(p.t,
		"service "+p.url()+" ext.far-1 "+filepath.Join(p.dir, "notes")+" "+strings.Join(seed, " "))
}

// open opens a host with extension far-1.
func (p *place) open(own cluster.Membership, transport string, o exthost.Options) *exthost.Host {
	p.t.Helper()
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{filepath.Join(p.dir, "extensions")}
	p.write("extensions/far-1/plugin.toml",
		"[plugin]\nid = \"far-1\"\nversion = \"1.0.0\"\n[capabilities]\ntools = ["+quoted(toolNames)+
			"]\n[transport]\nkind = \"nats\"\n"+transport)
	o.StateDir, o.Logger = filepath.Join(p.dir, "state"), slog.New(slog.DiscardHandler)
	if os.Getenv("SERVICES_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	o.Services = services.New(own)
	o.Environ = append(os.Environ(), o.Environ...)
	h, err := exthost.Open(context.Background(), cfg, o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := h.Close(); err != nil {
			p.t.Errorf("Close: %v", err)
		}
	})
	return h
}

func (p *place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		p.t.Fatal(err)
	}
}

func urls(p *place) cluster.Membership { return cluster.Membership{URLs: []string{p.url()}} }

// call calls a tool of far-1.
func call(t *testing.T, h *exthost.Host, tool, arguments string) (string, *protocol.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return callWith(ctx, h, tool, arguments, nil)
}

func callWith(ctx context.Context, h *exthost.Host, tool, arguments string, client protocol.Peer,
) (string, *protocol.Error) {
	params := `{"name":"ext_far-1_` + tool + `","arguments":` + arguments + `,"_meta":{"progressToken":"mine"}}`
	result, err := h.Do(ctx, &protocol.Call{
		Method: protocol.MethodToolsCall,
		Params: json.RawMessage(params),
		Client: client,
	})
	fault, _ := errors.AsType[*protocol.Error](err)
	if err != nil && fault == nil {
		fault = protocol.Errorf("no *protocol.Error", "%w", err)
	}
	return string(result), fault
}

// until waits for a state of far-1.
func until(t *testing.T, h *exthost.Host, state string) (reason string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		s := h.Status().Extensions[0]
		if s.State == state {
			return s.Reason
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is %s (%s), and not %s", s.State, s.Reason, state)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestService(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	p.service()
	h := p.open(urls(p), "", exthost.Options{})
	until(t, h, "ready")
	if got := len(h.Status().Extensions[0].Tools); got != 12 {
		t.Errorf("%d tools are listed", got)
	}
	if got, err := call(t, h, "echo", `{"n":12345678901234567890}`); err != nil ||
		!strings.Contains(got, `"structuredContent":{"n":12345678901234567890}`) {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := call(t, h, "twice", `{}`); err != nil || !strings.Contains(got, "first") {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := call(t, h, "ask", `{}`); err != nil || !strings.Contains(got, "asked") {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := call(t, h, "announce", `{}`); err != nil || !strings.Contains(got, "announced") {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := call(t, h, "noted", `{}`); err != nil || !strings.Contains(got, "initialize") {
		t.Errorf("%s, %v", got, err)
	}
	if n := len(h.Status().Extensions); n != 1 {
		t.Errorf("%d extensions after an announcement", n)
	}
}

// Messages of a Nexo broker wrap the lines.
func TestNexo(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	p.service("nexo")
	h := p.open(urls(p), "framing = \"nexo\"\n", exthost.Options{})
	until(t, h, "ready")
	if got, err := call(t, h, "echo", `{"n":"é\n\"12345678901234567890"}`); err != nil ||
		!strings.Contains(got, `"structuredContent":{"n":"é\n\"12345678901234567890"}`) {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := call(t, h, "binary", `{}`); err == nil || err.Kind != protocol.InvalidResponse ||
		!strings.Contains(err.Message, "framing = nexo") {
		t.Errorf("%+v", err)
	}
}

// relayed records the notifications of a service during a call.
type relayed struct{ notes chan string }

func (r *relayed) Notify(_ context.Context, method string, params json.RawMessage) error {
	r.notes <- method + string(params)
	return nil
}

func (r *relayed) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("no request of a service comes")
}

// A service sends progress to the reply subject of a request, or to its event subject.
func TestProgress(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	p.service()
	h := p.open(urls(p), "", exthost.Options{})
	until(t, h, "ready")
	r := &relayed{make(chan string, 10)}
	if got, err := callWith(t.Context(), h, "progress", `{}`, r); err != nil || !strings.Contains(got, "done") {
		t.Errorf("%s, %v", got, err)
	}
	if note := <-r.notes; !strings.HasPrefix(note, "notifications/progress") || !strings.Contains(note, `"mine"`) {
		t.Errorf("the first is %s", note)
	}
}

// An invalid response fails its call only, with an error that describes it.
func TestHostileAnswers(t *testing.T) {
	p := newPlace(t, natstest.Server{MaxPayload: 32 << 20})
	p.service()
	h := p.open(urls(p), "[runtime]\nmax_line_bytes = \"1MiB\"\ncall_timeout = \"30s\"\n", exthost.Options{})
	until(t, h, "ready")
	for tool, want := range map[string]struct {
		kind protocol.Kind
		text string
	}{
		"wrongid":     {protocol.InvalidResponse, "its id is \"7\""},
		"binary":      {protocol.InvalidResponse, "not a valid response"},
		"notresponse": {protocol.InvalidResponse, "batches"},
		"huge":        {protocol.LineTooLong, "max_line_bytes (1048576)"},
	} {
		_, err := call(t, h, tool, `{}`)
		if err == nil || err.Kind != want.kind || !strings.Contains(err.Message, want.text) ||
			err.Outcome != "unknown" {
			t.Errorf("%s: %+v", tool, err)
		}
	}
	if got, err := call(t, h, "echo", `{"still":1}`); err != nil || !strings.Contains(got, "still") {
		t.Errorf("%s, %v", got, err)
	}
	if s := h.Status().Extensions[0]; s.State != "ready" || s.Restarts != 0 {
		t.Errorf("it is %s after %d restarts", s.State, s.Restarts)
	}
}

// A request that exceeds the server's max_payload is refused before it is sent.
func TestMaxPayload(t *testing.T) {
	p := newPlace(t, natstest.Server{MaxPayload: 65536})
	p.service()
	h := p.open(urls(p), "", exthost.Options{})
	until(t, h, "ready")
	_, err := call(t, h, "echo", `{"x":"`+strings.Repeat("x", 1<<16)+`"}`)
	if err == nil || err.Kind != protocol.LineTooLong || err.Outcome != "" ||
		!strings.Contains(err.Message, "max_payload") {
		t.Errorf("%+v", err)
	}
	if got, err := call(t, h, "noted", `{}`); err != nil || strings.Contains(got, "echo") {
		t.Errorf("the service got it: %s, %v", got, err)
	}
}

// A call without an answer may have been executed. A late answer is not taken for the answer to another call.
func TestLostAnswer(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	p.service()
	h := p.open(urls(p), "[runtime]\ncall_timeout = \"300ms\"\n", exthost.Options{})
	until(t, h, "ready")
	_, err := call(t, h, "hang", `{}`)
	if err == nil || err.Kind != protocol.CallTimeout || err.Outcome != "unknown" {
		t.Errorf("%+v", err)
	}
	// the cancellation is a message of its own
	for deadline, got := time.Now().Add(patience), ""; !strings.Contains(got, "notifications/cancelled"); {
		if got, err = call(t, h, "noted", `{}`); err != nil || strings.Contains(got, "late") ||
			time.Now().After(deadline) {
			t.Fatalf("%s, %v", got, err)
		}
	}
	if got, err := call(t, h, "echo", `{"n":1}`); err != nil || !strings.Contains(got, `"n":1`) {
		t.Errorf("%s, %v", got, err)
	}
}

// A service goes on when the host ends, so it is told of the calls that end with the host.
func TestServiceIsToldOfCallsThatEndWithTheHost(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	p.service()
	h := p.open(urls(p), "", exthost.Options{})
	until(t, h, "ready")
	ended := make(chan *protocol.Error, 1)
	go func() {
		_, err := callWith(t.Context(), h, "hang", `{}`, nil)
		ended <- err
	}()
	noted := func(want string) {
		t.Helper()
		for deadline, text := time.Now().Add(patience), ""; !strings.Contains(text, want); {
			if time.Now().After(deadline) {
				t.Fatalf("the service never got %s:\n%s", want, text)
			}
			data, _ := os.ReadFile(filepath.Join(p.dir, "notes"))
			text = string(data)
		}
	}
	noted("tools/call hang")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || err.Kind != protocol.ShuttingDown || err.Outcome != "unknown" {
		t.Errorf("the call: %+v", err)
	}
	noted("notifications/cancelled")
}

// comesLate waits for the answer of a call that hung.
func comesLate(t *testing.T, answer <-chan string) {
	t.Helper()
	select {
	case got := <-answer:
		if !strings.Contains(got, "late") {
			t.Error(got)
		}
	case <-time.After(patience):
		t.Error("the call hangs")
	}
}

// A service that owes many answers still serves other calls.
func TestServiceThatOwesAnswersGoesOn(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	p.service()
	h := p.open(urls(p), "[runtime]\nmax_in_flight = 4\n", exthost.Options{})
	until(t, h, "ready")
	answer := make(chan string, 1)
	hanging := func(ctx context.Context) string {
		got, err := callWith(ctx, h, "hang", `{}`, nil)
		return fmt.Sprint(got, err)
	}
	taken := func(n int) {
		for text := ""; strings.Count(text, "hang") < n; {
			data, _ := os.ReadFile(filepath.Join(p.dir, "notes"))
			text = string(data)
		}
	}
	go func() { answer <- hanging(t.Context()) }()
	taken(1)
	for n := range 9 {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan string)
		go func() { over <- hanging(ctx) }()
		taken(n + 2)
		cancel()
		<-over
	}
	if got, err := call(t, h, "noted", `{}`); err != nil || strings.Count(got, "initialize") != 1 {
		t.Errorf("%s, %v", got, err)
	}
	comesLate(t, answer)
}

// A service that is absent gets no calls until it appears.
func TestAbsentService(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	h := p.open(urls(p), "[runtime]\ncall_timeout = \"5s\"\n[runtime.restart]\nbase_backoff = \"50ms\"\nmax_backoff "+
		"= \"100ms\"\n", exthost.Options{})
	if s := h.Status().Extensions[0]; !strings.Contains(s.Reason, "no service takes requests at ext.far-1.rpc") ||
		!strings.Contains(s.Reason, "start the service") {
		t.Errorf("it is %s: %s", s.State, s.Reason)
	}
	first := p.service()
	// needed for any extension that failed when the host started
	if err := h.Admin().Restart(t.Context(), "far-1"); err != nil {
		t.Fatal(err)
	}
	_, err := call(t, h, "echo", `{}`)
	for deadline := time.Now().Add(patience); err != nil && err.Kind == protocol.ToolNotFound &&
		time.Now().Before(deadline); _, err = call(t, h, "echo", `{}`) { // until it is listed
	}
	if err != nil {
		t.Fatal(err)
	}
	first.Kill()
	_, err = call(t, h, "echo", `{}`)
	for deadline := time.Now().Add(patience); (err == nil || err.Kind == protocol.CallTimeout) &&
		time.Now().Before(deadline); _, err = call(t, h, "echo", `{}`) { // until the server has noticed it
	}
	if err == nil || err.Kind != protocol.NotReady || err.Outcome != "" ||
		!strings.Contains(err.Message, "was not sent") {
		t.Errorf("%+v", err)
	}
	until(t, h, "restarting")
	p.service()
	until(t, h, "ready")
	if _, err := call(t, h, "echo", `{}`); err != nil {
		t.Error(err)
	}
}

// The calls of a service that dies have an unknown outcome. Another call reveals the death, unless the server sent it
// before it noticed that the service is gone.
func TestCallsOfADeadServiceAreUnknown(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	first := p.service()
	h := p.open(urls(p), "", exthost.Options{})
	until(t, h, "ready")
	lost := make(chan *protocol.Error, 1)
	go func() {
		_, err := callWith(t.Context(), h, "hang", `{}`, nil)
		lost <- err
	}()
	for got := ""; !strings.Contains(got, "hang"); {
		text, _ := os.ReadFile(filepath.Join(p.dir, "notes"))
		got = string(text)
	}
	first.Kill()
	reveals := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := callWith(ctx, h, "echo", `{}`, nil)
		return err != nil && ctx.Err() == nil
	}
	for !reveals() {
	}
	select {
	case err := <-lost:
		if err == nil || err.Kind != protocol.ChildExited || err.Outcome != "unknown" {
			t.Errorf("%+v", err)
		}
	case <-time.After(patience):
		t.Error("the call hangs")
	}
}

// A call survives a restart of the server. Calls in between are refused.
func TestCallSurvivesAServerRestart(t *testing.T) {
	p := newPlace(t, natstest.Server{})
	p.service()
	h := p.open(urls(p), "", exthost.Options{})
	until(t, h, "ready")
	answer := make(chan string, 1)
	go func() {
		got, err := callWith(t.Context(), h, "hang", `{}`, nil)
		answer <- fmt.Sprint(got, err)
	}()
	for got := ""; !strings.Contains(got, "hang"); {
		text, _ := os.ReadFile(filepath.Join(p.dir, "notes"))
		got = string(text)
	}
	p.server.Kill()
	short := func() *protocol.Error {
		// a request that was written to the dead server has no answer
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := callWith(ctx, h, "echo", `{}`, nil)
		return err
	}
	err := short()
	for ; err == nil || err.Kind != protocol.NotReady; err = short() {
		if err != nil && err.Outcome != "unknown" {
			t.Fatalf("%+v", err)
		}
	}
	if err.Outcome != "" || !strings.Contains(err.Message, "no connection to NATS") {
		t.Errorf("%+v", err)
	}
	p.serve()
	got, err := call(t, h, "noted", `{}`) // answers the first call
	for deadline := time.Now().Add(patience); err != nil &&
		time.Now().Before(deadline); got, err = call(t, h, "noted", `{}`) {
	}
	if err != nil || strings.Count(got, "initialize") != 1 {
		t.Errorf("%s, %v", got, err)
	}
	comesLate(t, answer)
}

// Errors say what a host's credentials lack.
func TestMissingCredentials(t *testing.T) {
	p := newPlace(t, natstest.Server{Token: "hush"})
	for name, tt := range map[string]struct {
		own       cluster.Membership
		transport string
		want      string
	}{
		"no server": {cluster.Membership{}, "", "state transport.url, or cluster.urls"},
		"a hub": {cluster.Membership{Join: "n1.creds"}, "",
			"the hub of the cluster carries no messages of services"},
		"refused": {urls(p), "", "does not take the credentials"},
		"unreachable": {cluster.Membership{}, "url = \"nats://127.0.0.1:1\"\n",
			"no NATS server answers at nats://127.0.0.1:1"},
		"no token": {cluster.Membership{},
			"url = \"" + p.url() + "\"\ntoken_env = \"FAR\"\n[requires]\nenv = [\"FAR\"]\n", "FAR"},
	} {
		h := p.open(tt.own, tt.transport, exthost.Options{})
		s := h.Status()
		text := fmt.Sprint(s.Diagnostics)
		if len(s.Extensions) > 0 {
			text += s.Extensions[0].Reason
		}
		if !strings.Contains(text, tt.want) {
			t.Errorf("%s: %s", name, text)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A server receives the token from the environment, or the seed from a file.
func TestCredentials(t *testing.T) {
	host, service := pair(t), pair(t)
	p := newPlace(t, natstest.Server{Nkeys: users(host.public, service.public, "ext.far-1.rpc")})
	p.service(service.seed)
	p.write("extensions/far-1/far.seed", host.seed+"\n")
	h := p.open(cluster.Membership{}, "url = \""+p.url()+"\"\ntoken_file = \"far.seed\"\n", exthost.Options{})
	until(t, h, "ready")
	// events are not permitted, and not needed
	if got, err := call(t, h, "echo", `{"n":1}`); err != nil || !strings.Contains(got, `"n":1`) {
		t.Errorf("%s, %v", got, err)
	}
	if status := fmt.Sprintf("%+v", h.Status()); strings.Contains(status, host.seed) {
		t.Error("the status has the seed")
	}
}

func TestNotPermitted(t *testing.T) {
	host, service := pair(t), pair(t)
	p := newPlace(t, natstest.Server{Nkeys: users(host.public, service.public, "ext.another.rpc")})
	p.service(service.seed)
	h := p.open(cluster.Membership{},
		"url = \""+p.url()+"\"\ntoken_env = \"FAR_TOKEN\"\n[requires]\nenv = [\"FAR_TOKEN\"]\n",
		exthost.Options{Environ: []string{"FAR_TOKEN=" + host.seed}})
	if s := h.Status().Extensions[0]; !strings.Contains(s.Reason, "needs to publish to ext.far-1.rpc") ||
		strings.Contains(fmt.Sprintf("%+v", h.Status()), host.seed) {
		t.Errorf("it is %s: %s", s.State, s.Reason)
	}
}

type keys struct{ public, seed string }

func pair(t *testing.T) keys {
	t.Helper()
	k, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := k.Seed()
	public, _ := k.PublicKey()
	return keys{public, string(seed)}
}
