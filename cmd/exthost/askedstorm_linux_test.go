package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// recordManifest is an extension that journals each call before it answers.
const recordManifest = `
[plugin]
id = "kit"
version = "0.1.0"
[transport]
kind = "exec"
command = "sh"
[[tools]]
name = "record"
description = "Writes a nonce into a journal."
command = ["sh", "-c", 'printf "\n%s;\n" "$1" >> "$0"', "JOURNAL", "{nonce}"]
`

// askedStorm lets clients on stdio make calls that their person must approve, while hosts, relays and clients are
// killed.
type askedStorm struct {
	t        *testing.T
	dir      string
	left     atomic.Int64  // calls
	pause    int64         // calls from one kill of a host to the next
	kill     chan struct{} // receives for each host to kill
	ended    atomic.Int64  // calls with an outcome
	answers  [4]atomic.Int64
	accepted sync.Map // nonces whose call the person has accepted, or is about to
}

// TestNothingRunsUnanswered kills hosts, relays and clients while clients of both eras are asked. Every call that the
// extension journaled was accepted before, and ran once.
func TestNothingRunsUnanswered(t *testing.T) {
	clients := stormtest.Sized(4, 12) // each waits most of the time
	calls, kills := stormtest.Sized(80, 3_000), stormtest.Sized(3, 100)
	processtest.Leaks(t)
	journal := filepath.Join(t.TempDir(), "journal")
	var names strings.Builder
	for i := range clients {
		fmt.Fprintf(&names, "    c%d: {approves: [write]}\n", i)
	}
	s := &askedStorm{t: t, dir: project(t, map[string]string{
		"extensions/kit/plugin.toml": strings.Replace(recordManifest, "JOURNAL", journal, 1),
		"config-home/exthost/exthost.yaml": "server:\n  clients:\n" + names.String() +
			"plugins:\n  - name: ask\n    category: authorization\n    builtin: approval\n" +
			"    config: {where: client, expiry: 1s}\n",
	})}
	defer stopHosts(t, s.dir)
	s.left.Store(int64(calls))
	s.pause, s.kill = int64(calls/(kills+1)), make(chan struct{}, calls)
	seed := rand.Uint64()
	if stated, err := strconv.ParseUint(os.Getenv("EXTHOST_STORM_SEED"), 10, 64); err == nil {
		seed = stated
	}
	t.Logf("EXTHOST_STORM_SEED=%d", seed)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for r, life := rand.New(rand.NewPCG(seed, uint64(i))), 0; s.left.Load() > 0; life++ {
				s.live(i, life, r)
			}
		})
	}
	var killing sync.WaitGroup
	killing.Go(s.killHosts)
	running.Wait()
	close(s.kill)
	killing.Wait()
	ran := make(map[string]int)
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Error(err)
	}
	for _, nonce := range stormtest.WholeEntries(string(data)) {
		if ran[nonce]++; ran[nonce] > 1 {
			t.Errorf("%s ran %d times", nonce, ran[nonce])
		}
		if _, yes := s.accepted.Load(nonce); !yes {
			t.Errorf("%s ran, and nobody had accepted it", nonce)
		}
	}
	t.Logf("%d calls, %d of them with an outcome; %d were accepted, %d declined, %d dismissed, %d not answered; %d ran",
		calls, s.ended.Load(), s.answers[0].Load(), s.answers[1].Load(), s.answers[2].Load(), s.answers[3].Load(),
		len(ran))
	if len(ran) == 0 || s.answers[1].Load() == 0 {
		t.Error("no storm")
	}
}

// killHosts kills the host of the directory whenever enough calls were made.
func (s *askedStorm) killHosts() {
	for range s.kill {
		out, err := program(s.dir, "status", "-o", "json").Output()
		var v struct {
			Status struct{ Host struct{ PID int } }
		}
		if err == nil && json.Unmarshal(out, &v) == nil && v.Status.Host.PID > 0 {
			_ = syscall.Kill(v.Status.Host.PID, syscall.SIGKILL)
		}
	}
}

// stormClient is a client on stdio, with the person in front of it.
type stormClient struct {
	s      *askedStorm
	in     io.WriteCloser
	out    *bufio.Reader
	relay  *exec.Cmd
	modern bool
	r      *rand.Rand
	asked  int
	lastID int
}

// live runs one relay until it is killed, ends, or its client leaves.
func (s *askedStorm) live(i, life int, r *rand.Rand) {
	cmd := program(s.dir, "serve", "--stdio", "--as", fmt.Sprint("c", i))
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Error(err)
		s.left.Store(0)
		return
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Error(err)
		s.left.Store(0)
		return
	}
	defer func() { _ = cmd.Wait() }()
	defer time.AfterFunc(patience, func() {
		s.t.Error("a call has no outcome")
		_ = cmd.Process.Kill()
	}).Stop()
	c := &stormClient{s: s, in: in, out: bufio.NewReader(out), relay: cmd, modern: i%2 == 1, r: r}
	if !c.modern {
		c.write(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`)
		c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	for n := range 1 + r.IntN(20) {
		left := s.left.Add(-1)
		if left%s.pause == 0 && left > s.pause { // after the last kill, somebody still starts a host
			s.kill <- struct{}{}
		}
		if left < 0 || !c.call(fmt.Sprintf("%d.%d.%d", i, life, n)) {
			break
		}
	}
	if r.IntN(2) == 0 {
		_ = cmd.Process.Kill()
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, c.out)
}

func (c *stormClient) write(line string) { _, _ = io.WriteString(c.in, line+"\n") }

// frame is a message of the host.
type frame struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]json.RawMessage
	}
}

var nonceIn = regexp.MustCompile(`\\"nonce\\":\\"([0-9.]+)\\"`)

// call makes a call, and answers the question about it. It returns false if the client has ended.
func (c *stormClient) call(nonce string) bool {
	more := ""
	for {
		c.lastID++
		meta := ""
		if c.modern {
			meta = more + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
		}
		c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ext_kit_record","arguments":{"nonce":%q}%s}}`,
			c.lastID, nonce, meta))
		f, alive := c.outcome()
		if !alive {
			return false
		}
		if f.Result.ResultType != "input_required" {
			c.s.ended.Add(1)
			return true
		}
		for key, question := range f.Result.InputRequests {
			answer, alive := c.decide(question)
			if !alive {
				return false
			}
			if answer == "" { // the client does not come back
				return true
			}
			more = fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}`, f.Result.RequestState, key, answer)
		}
	}
}

// outcome returns the response to the latest request. It answers the questions that come before.
func (c *stormClient) outcome() (f frame, alive bool) {
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			return f, false
		}
		f = frame{}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			c.s.t.Errorf("%s: %v", line, err)
		}
		switch {
		case f.Method == "elicitation/create":
			answer, alive := c.decide(f.Params)
			if !alive {
				return f, false
			}
			if answer != "" {
				c.write(`{"jsonrpc":"2.0","id":` + string(f.ID) + `,"result":` + answer + `}`)
			}
		case f.Method == "" && string(f.ID) == strconv.Itoa(c.lastID):
			return f, true
		}
	}
}

// decide is the person: it returns the answer to a question, "" for none, or ends the client.
func (c *stormClient) decide(question json.RawMessage) (answer string, alive bool) {
	if c.asked++; c.asked%5 == 0 { // faster, and the host would take the person for a program
		<-time.After(310 * time.Millisecond)
	}
	found := nonceIn.FindSubmatch(question)
	if found == nil {
		c.s.t.Errorf("the question does not show the call: %s", question)
		return "", false
	}
	switch n := c.r.IntN(20); {
	case n < 14:
		c.s.accepted.Store(string(found[1]), true)
		c.s.answers[0].Add(1)
		return `{"action":"accept","content":{}}`, true
	case n < 16:
		c.s.answers[1].Add(1)
		return `{"action":"decline"}`, true
	case n < 17:
		c.s.answers[2].Add(1)
		return `{"action":"cancel"}`, true
	case n < 19:
		c.s.answers[3].Add(1)
		_ = c.relay.Process.Kill() // with the question in its hands
		return "", false
	}
	c.s.answers[3].Add(1)
	return "", true // until the request expires
}
