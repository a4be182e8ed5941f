package peertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// TestConformanceOverTheRelay runs the official conformance suite against exthost serve --stdio. The suite speaks only
// HTTP, so an HTTP server of the test passes each request to a client on stdio. What the suite checks of HTTP itself
// applies to that server; everything else passes the relay and the host that the relay starts. The suite expects fixed
// names, so the server removes the prefix of the extension from names.
func TestConformanceOverTheRelay(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir)
	folder(dir).add(t, "child", fmt.Sprintf("command = %q\nprotocol = \"mcp\"", buildEverything(t)))
	b := &overStdio{t: t, h: h, sessions: make(map[*protocol.Session]*stdioClient)}
	t.Cleanup(b.close)
	url := serveBackend(t, b)
	for _, revision := range []string{legacyVersion, modernVersion} {
		t.Run(revision, func(t *testing.T) {
			h.conforms(t, url+"/mcp", revision)
		})
	}
}

// serveBackend serves b over HTTP until the test ends and returns the base URL.
func serveBackend(t *testing.T, b mcpserver.Backend) string {
	s := httpserver.New(httpserver.Options{Backend: b, Listen: "127.0.0.1:0"})
	l, err := s.Listen(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// namePrefix begins the names of tools and prompts of the extension child.
const namePrefix = "ext_child_"

// overStdio is the backend of the HTTP server: a client on stdio for each session, and one for
// all stateless requests. It opens no subscriptions of stateless clients.
type overStdio struct {
	t *testing.T
	h *host

	mu       sync.Mutex
	sessions map[*protocol.Session]*stdioClient
	modern   *stdioClient
}

func (b *overStdio) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.sessions {
		c.close()
	}
	if b.modern != nil {
		b.modern.close()
	}
}

// client returns the client on stdio for s.
func (b *overStdio) client(s *protocol.Session) *stdioClient {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.ID != "" {
		return b.sessions[s]
	}
	if b.modern == nil {
		b.modern = startClient(b.t, b.h, nil)
	}
	return b.modern
}

// Attach implements [mcpserver.Backend].
func (b *overStdio) Attach(ctx context.Context, s *protocol.Session) error {
	if s.ID == "" {
		return nil
	}
	c := startClient(b.t, b.h, s)
	b.mu.Lock()
	b.sessions[s] = c
	b.mu.Unlock()
	hello := fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, s.Version, s.Capabilities,
		s.ClientInfo)
	var err error
	if c.hello, err = c.call(ctx,
		&protocol.Call{Method: protocol.MethodInitialize, Params: json.RawMessage(hello)}); err != nil {
		return err
	}
	c.write(&frame{Method: protocol.MethodInitialized})
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		delete(b.sessions, s)
		b.mu.Unlock()
		c.close()
	})
	return nil
}

// Describe implements [mcpserver.Describer].
func (b *overStdio) Describe(ctx context.Context, s *protocol.Session) (d protocol.Description, err error) {
	c := b.client(s)
	said := c.hello
	if s.ID == "" {
		params := fmt.Sprintf(`{"_meta":{%q:%q,%q:%s}}`, protocol.MetaProtocolVersion, s.Version,
			protocol.MetaClientCapabilities, s.Capabilities)
		said, err = c.call(ctx, &protocol.Call{Method: protocol.MethodDiscover, Params: json.RawMessage(params)})
	}
	d.Capabilities, d.ServerInfo = rawjson.Get(said, "capabilities"), rawjson.Get(said, "serverInfo")
	d.Instructions, _ = rawjson.Text(rawjson.Get(said, "instructions"))
	return d, err
}

// Do implements [mcpserver.Backend].
func (b *overStdio) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	if c.Session.ID == "" && c.Method == protocol.MethodResourcesSubscribe {
		return json.RawMessage("{}"), nil // a part of a subscription
	}
	client := b.client(c.Session)
	if c.Notify {
		client.write(&frame{Method: c.Method, Params: c.Params})
		return nil, nil
	}
	one := *c
	switch c.Method {
	case protocol.MethodToolsCall, protocol.MethodPromptsGet:
		one.Params = prefixed(c.Params)
	case protocol.MethodComplete:
		if ref := rawjson.Get(c.Params, "ref"); rawjson.Get(ref, "name") != nil {
			one.Params = rawjson.Set(c.Params, "ref", prefixed(ref))
		}
	}
	result, err := client.call(ctx, &one)
	if c.Method == protocol.MethodToolsList || c.Method == protocol.MethodPromptsList {
		result = bytes.ReplaceAll(result, []byte(`"name":"`+namePrefix), []byte(`"name":"`))
	}
	return result, err
}

func prefixed(params json.RawMessage) json.RawMessage {
	name, _ := rawjson.Text(rawjson.Get(params, "name"))
	return rawjson.Set(params, "name", rawjson.Quote(namePrefix+name))
}

// frame is a message of JSON-RPC.
type frame struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// stdioClient is a process of exthost serve --stdio and the calls in it.
type stdioClient struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	session *protocol.Session // nil for stateless requests
	hello   json.RawMessage   // the result of initialize
	read    chan struct{}     // closed at the end of stdout

	mu      sync.Mutex
	lastID  int
	waiting map[string]chan *frame
	calls   []*protocol.Call // in flight, the oldest first
}

func startClient(t *testing.T, h *host, s *protocol.Session) *stdioClient {
	c := &stdioClient{
		cmd:     h.command(h.argv("--stdio")),
		session: s,
		read:    make(chan struct{}),
		waiting: make(map[string]chan *frame),
	}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.in = in; c.cmd.Start() != nil {
		t.Fatal("exthost serve --stdio does not start")
	}
	go c.readAll(out)
	return c
}

func (c *stdioClient) close() {
	c.in.Close()
	<-c.read
	_ = c.cmd.Wait()
}

func (c *stdioClient) write(f *frame) {
	f.Version = "2.0"
	line, _ := json.Marshal(f)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.in.Write(append(line, '\n')) // a call whose request is lost ends with its context
}

func (c *stdioClient) readAll(out io.Reader) {
	defer close(c.read)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		f := new(frame)
		if json.Unmarshal(bytes.Clone(lines.Bytes()), f) != nil {
			continue
		}
		switch {
		case f.Method == "":
			c.mu.Lock()
			to := c.waiting[string(f.ID)]
			c.mu.Unlock()
			if to != nil {
				to <- f // has room for the one answer
			}
		case f.ID == nil:
			if to := c.concerned(f.Params); to != nil {
				_ = to.Notify(context.Background(), f.Method, f.Params)
			}
		default:
			go c.answer(f)
		}
	}
}

// concerned returns the client that a message of the host is for: the caller of the latest call that has the message's
// progress token, or of the latest call if there is no token. If there is no such call, it is the client of the
// session.
func (c *stdioClient) concerned(params json.RawMessage) protocol.Peer {
	token := rawjson.Get(params, "progressToken")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range slices.Backward(c.calls) {
		if call.Client != nil &&
			(token == nil || bytes.Equal(token, rawjson.Get(rawjson.Get(call.Params, "_meta"), "progressToken"))) {
			return call.Client
		}
	}
	if c.session == nil {
		return nil
	}
	return c.session.Client
}

// answer passes a request of the host to the client, and the client's answer back.
func (c *stdioClient) answer(f *frame) {
	reply := &frame{ID: f.ID}
	var err error
	if to := c.concerned(f.Params); to == nil {
		err = fmt.Errorf("nobody can be asked %s", f.Method)
	} else {
		reply.Result, err = to.Call(context.Background(), f.Method, f.Params)
	}
	if err != nil {
		reply.Error = &rpcError{Code: -32601, Message: err.Error()}
	}
	c.write(reply)
}

func (c *stdioClient) call(ctx context.Context, call *protocol.Call) (json.RawMessage, error) {
	answer := make(chan *frame, 1)
	c.mu.Lock()
	c.lastID++
	id := fmt.Sprint(c.lastID)
	c.waiting[id] = answer
	c.calls = append(c.calls, call)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, id)
		c.calls = slices.DeleteFunc(c.calls, func(other *protocol.Call) bool { return other == call })
	}()
	c.write(&frame{ID: json.RawMessage(id), Method: call.Method, Params: call.Params})
	select {
	case f := <-answer:
		if f.Error != nil {
			return nil, &protocol.Error{
				Kind:    protocol.ExtensionError,
				Code:    f.Error.Code,
				Message: f.Error.Message,
				Data:    f.Error.Data,
			}
		}
		return f.Result, nil
	case <-c.read:
		return nil, protocol.Errorf(protocol.StdoutClosed, "exthost serve --stdio has ended")
	case <-ctx.Done():
		c.write(&frame{Method: protocol.MethodCancelled, Params: json.RawMessage(`{"requestId":` + id + `}`)})
		return nil, ctx.Err()
	}
}
