package check_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) {
	processtest.Main(processtest.Sharded(m), map[string]processtest.Verb{"native": native})
}

// child is a native extension with one fault.
type child struct {
	fault string
	mu    sync.Mutex
	waits map[string]chan struct{} // pending calls by id; closed when cancelled
	calls sync.WaitGroup
	left  *time.Timer // ends the process; nil: nothing does
}

// timerFor returns a timer that ends the process a while after the last answer.
func timerFor(t *time.Timer) *time.Timer {
	if t == nil {
		return time.AfterFunc(300*time.Millisecond, func() { processtest.Exit(0) })
	}
	t.Reset(300 * time.Millisecond)
	return t
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      any                        `json:"name"`
		Arguments map[string]json.RawMessage `json:"arguments"`
		RequestID json.RawMessage            `json:"requestId"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

const offered = `{"server_version":"0.1.0","tools":[` +
	`{"name":"echo","description":"Gives back what it is told.","input_schema":{"type":"object","properties":{"text":{"type":"string","description":"Any text"},"n":{"type":"integer","description":"Any number"}},"required":["text"],"additionalProperties":false},"annotations":{"readOnlyHint":true}},` +
	`{"name":"wait","description":"Waits until it is cancelled.","input_schema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"readOnlyHint":true}}]}`

func native(fault string) {
	c := &child{fault: fault, waits: make(map[string]chan struct{})}
	if c.is("ignores SIGTERM") {
		signal.Ignore(syscall.SIGTERM)
	}
	if c.is("is noisy before the handshake") {
		c.say("starting")
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		c.hear(line)
	}
	c.mu.Lock()
	for _, w := range c.waits {
		close(w)
	}
	c.mu.Unlock()
	c.calls.Wait()
	switch {
	case c.is("outlives stdin"):
		time.Sleep(time.Hour)
	case c.is("ends badly"):
		processtest.Exit(3)
	case c.is("leaves a process"):
		_ = exec.Command("sleep", "60").Start()
	}
}

func (c *child) is(fault string) bool { return c.fault == fault }

func (c *child) say(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Println(line)
}

func (c *child) answer(id json.RawMessage, member string) {
	switch {
	case c.is("makes texts of ids") && len(id) < 6:
		id = json.RawMessage(`"` + string(id) + `"`)
	case c.is("forgets jsonrpc"):
		c.say(fmt.Sprintf(`{"id":%s,%s}`, id, member))
		return
	}
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, member))
	if c.is("ends when it is left alone") {
		c.mu.Lock()
		c.left = timerFor(c.left)
		c.mu.Unlock()
	}
	if c.is("answers twice") && string(id) != "0" {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, member))
	}
}

func (c *child) hear(line string) {
	var m message
	if json.Unmarshal([]byte(line), &m) != nil {
		return
	}
	switch {
	case m.Method == "notifications/cancelled" && !c.is("ignores cancellation"):
		c.mu.Lock()
		if w := c.waits[string(m.Params.RequestID)]; w != nil {
			close(w)
			delete(c.waits, string(m.Params.RequestID))
		}
		c.mu.Unlock()
	case m.ID == nil && c.is("answers notifications"):
		c.say(`{"jsonrpc":"2.0","id":null,"result":{}}`)
	case m.ID == nil || m.Method == "":
	case m.Method == "initialize":
		c.answer(m.ID, `"result":`+c.offer())
	case m.Method == "ping" && c.is("knows no ping"), m.Method == "shutdown" && c.is("knows no shutdown"):
		processtest.Exit(1)
	case m.Method == "ping" || m.Method == "shutdown":
		c.answer(m.ID, `"result":{}`)
	case m.Method == "tools/list":
		c.answer(m.ID, `"result":`+offered)
	case m.Method == "tools/call":
		c.call(m)
	case c.is("takes any method"):
		c.answer(m.ID, `"result":{}`)
	case c.is("dies of a large line") && len(line) > 1<<16:
		panic("too large")
	default:
		c.answer(m.ID, `"error":{"code":-32601,"message":"method not found"}`)
	}
}

func (c *child) offer() string {
	switch {
	case c.is("offers another tool"):
		return strings.ReplaceAll(offered, `"name":"wait"`, `"name":"linger"`)
	case c.is("describes nothing"):
		return strings.ReplaceAll(offered, `"description":"Gives back what it is told."`, `"description":" "`)
	case c.is("contradicts itself"):
		return strings.ReplaceAll(offered, `{"readOnlyHint":true}`, `{"readOnlyHint":true,"destructiveHint":true}`)
	case c.is("misspells a type"):
		return strings.ReplaceAll(offered, `"type":"string"`, `"type":"strin"`)
	case c.is("requires what is not there"):
		return strings.ReplaceAll(offered, `"required":["text"]`, `"required":["text","colour"]`)
	}
	return offered
}

func (c *child) call(m message) {
	switch name, _ := m.Params.Name.(string); {
	case name == "wait":
		w := make(chan struct{})
		c.mu.Lock()
		c.waits[string(m.ID)] = w
		c.mu.Unlock()
		c.calls.Go(func() { <-w; c.answer(m.ID, `"result":"cancelled"`) })
		if c.is("is held up by a call") {
			<-w
		}
	case name == "echo":
		c.echo(m)
	case c.is("takes any tool"):
		c.answer(m.ID, `"result":"done"`)
	default:
		c.answer(m.ID, `"error":{"code":-32602,"message":"there is no such tool"}`)
	}
}

func (c *child) echo(m message) {
	text := m.Params.Arguments["text"]
	var s string
	if json.Unmarshal(text, &s) != nil {
		if c.is("takes any arguments") {
			s = "anything"
		} else {
			c.answer(m.ID, `"result":{"content":[{"type":"text","text":"text has to be a string"}],"isError":true}`)
			return
		}
	}
	if c.is("prints") {
		c.say("debug: echo is called")
	}
	n := string(m.Params.Arguments["n"])
	if c.is("rounds") && n != "" {
		var f float64
		_ = json.Unmarshal([]byte(n), &f)
		n = fmt.Sprintf("%.0f", f)
	}
	if c.is("loses characters") {
		s = strings.ToValidUTF8(strings.Map(func(r rune) rune { return min(r, 255) }, s), "?")
	}
	if token := m.Params.Meta.ProgressToken; token != nil || c.is("tells everybody its progress") {
		if token == nil {
			token = json.RawMessage(`"nobody's"`)
		}
		for _, progress := range []int{1, 2} {
			if c.is("goes back") {
				progress = 3 - progress
			}
			c.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, progress))
		}
	}
	said, _ := json.Marshal(s + n)
	c.answer(m.ID, `"result":`+string(said))
}
