//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

const journalManifest = `
[plugin]
id = "journal"
version = "0.1.0"
[transport]
kind = "exec"
command = "sh"
[[tools]]
name = "note"
description = "Appends a word to a file."
command = ["sh", "-c", "echo \"$0\" >>journal && echo noted", "{word}"]
input_schema = { type = "object", properties = { word = { type = "string" } } }
`

// The outcomes of a call, as its caller sees them.
const (
	answered = "answered"                   // with its result
	said     = "refused, not executed"      // an error without outcome, or a status
	unknown  = "may have been executed"     // an error that says so
	ended    = "session ended, not run"     // 404, upon which the client opens another session
	closed   = "no connection"              // there was no host to connect to
	unread   = "cut before it was received" // the connection ended without a word
)

// TestUpgradeUnderCallers replaces the program under a host with 16 callers: 8 with sessions and streams over HTTP, and
// 8 on stdio. Each call has one outcome, and none that was executed is lost without a word: what is answered was
// executed once, what is refused was not. Each stream ends in order, and each caller goes on with the new host.
func TestUpgradeUnderCallers(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/journal/plugin.toml": journalManifest})
	u := &upgrade{T: t, dir: dir, program: filepath.Join(dir, "bin", "exthost"), outcomes: make(map[string]string)}
	u.install()
	port, release, err := processtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	start := func() *served {
		cmd := program(dir, "serve", "--listen", "127.0.0.1:"+port)
		cmd.Path = u.program
		return startHost(t, cmd)
	}
	s := start()
	u.url = s.url
	defer ask(t, dir, "stop") // relays may have started a host while there was none
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for n := range 8 {
		callers.Go(func() { u.callOverHTTP(ctx, n) })
		callers.Go(func() { u.callOnStdio(ctx, n) })
	}
	u.await("before the upgrade")
	u.install()
	if code := s.end(t, syscall.SIGTERM); code != console.ExitOK {
		t.Errorf("the host ends with exit code %d: %s", code, s.stderr)
	}
	s = start()
	u.await("after the upgrade")
	stop()
	callers.Wait()
	if code := s.end(t, syscall.SIGTERM); code != console.ExitOK {
		t.Errorf("the new host ends with exit code %d: %s", code, s.stderr)
	}
	u.judge()
	if n := u.streams.Load(); n < 8 {
		t.Errorf("%d of 8 streams were told of the end", n)
	}
}

// upgrade is the state of the test that its callers share.
type upgrade struct {
	*testing.T
	dir, program, url string
	streams           atomic.Int32 // that ended in order

	mu       sync.Mutex
	outcomes map[string]string // by word
	round    map[string]bool   // callers that have an answer in this round; nil: nobody waits
	whole    chan struct{}     // closed when all have one
}

// install puts a new file in the place of the program, in one step.
func (u *upgrade) install() {
	u.Helper()
	path, err := exec.LookPath("exthost")
	if err != nil {
		u.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		u.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(u.program), 0o755),
		os.WriteFile(u.program+".new", data, 0o755), os.Rename(u.program+".new", u.program)); err != nil {
		u.Fatal(err)
	}
}

// await waits until each of the 16 callers has had one more answer.
func (u *upgrade) await(when string) {
	u.Helper()
	whole := make(chan struct{})
	u.mu.Lock()
	u.round, u.whole = make(map[string]bool), whole
	u.mu.Unlock()
	select {
	case <-whole:
	case <-time.After(patience):
		u.mu.Lock()
		defer u.mu.Unlock()
		u.Fatalf("%s only %d callers have answers", when, len(u.round))
	}
}

// record notes the outcome of a caller's call.
func (u *upgrade) record(caller, word, outcome string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.outcomes[word] = outcome
	if outcome != answered || u.round == nil {
		return
	}
	if u.round[caller] = true; len(u.round) == 16 {
		u.round = nil
		close(u.whole)
	}
}

// judge compares what the callers were told with what was executed.
func (u *upgrade) judge() {
	text, err := os.ReadFile(filepath.Join(u.dir, "extensions", "journal", "journal"))
	if err != nil {
		u.Fatal(err)
	}
	executed, counts := make(map[string]int), make(map[string]int)
	for word := range strings.FieldsSeq(string(text)) {
		executed[word]++
	}
	for word, outcome := range u.outcomes {
		counts[outcome]++
		switch n := executed[word]; {
		case n > 1, outcome == answered && n != 1:
			u.Errorf("%s: %s, and executed %d times", word, outcome, n)
		case outcome != answered && outcome != unknown && n != 0:
			u.Errorf("%s: lost: %s, and executed", word, outcome)
		}
		delete(executed, word)
	}
	if len(executed) > 0 {
		u.Errorf("executed, and nobody was told: %v", executed)
	}
	u.Logf("outcomes of %d calls: %v", len(u.outcomes), counts)
}

// outcomeOf returns the outcome that a response states.
func outcomeOf(response string) string {
	var m struct {
		Result json.RawMessage
		Error  *struct{ Data struct{ Outcome string } }
	}
	switch err := json.Unmarshal([]byte(response), &m); {
	case err == nil && m.Error != nil && m.Error.Data.Outcome != "":
		return unknown
	case err == nil && m.Error != nil:
		return said
	case err == nil && strings.Contains(string(m.Result), "noted"):
		return answered
	}
	return "odd: " + response
}

// callOnStdio is a client on stdio that calls until ctx ends. The host may change under it.
func (u *upgrade) callOnStdio(ctx context.Context, n int) {
	caller := fmt.Sprintf("stdio-%d", n)
	c := client{Cmd: program(u.dir, "serve", "--stdio")}
	c.Path = u.program
	c.begin(u)
	c.open(u)
	for i := 1; ctx.Err() == nil; i++ {
		word := fmt.Sprintf("%s-%d", caller, i)
		u.record(caller, word, outcomeOf(c.say(u, call(i, "ext_journal_note", `{"word":"`+word+`"}`))))
	}
	c.leave(u)
}

// session is one of a client over HTTP.
type session struct {
	u      *upgrade
	client *http.Client
	id     string
}

// callOverHTTP is a client over HTTP that calls until ctx ends. Whenever it has no session, it opens one with a stream.
func (u *upgrade) callOverHTTP(ctx context.Context, n int) {
	caller := fmt.Sprintf("http-%d", n)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	s := &session{u: u, client: &http.Client{Transport: transport, Timeout: patience}}
	var streams sync.WaitGroup
	defer streams.Wait()
	for i := 1; ctx.Err() == nil; i++ {
		if s.id == "" {
			if s.open(ctx, &streams); s.id == "" { // no host accepts sessions now
				<-time.After(10 * time.Millisecond)
				continue
			}
		}
		word := fmt.Sprintf("%s-%d", caller, i)
		outcome := s.call(word)
		u.record(caller, word, outcome)
		if outcome == ended || outcome == closed || outcome == unread {
			s.id = ""
		}
	}
}

func (s *session) post(body string) (status int, header http.Header, text string, err error) {
	req, err := http.NewRequest(http.MethodPost, s.u.url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(data), err
}

// open opens a session and its stream. The session has no id if no host accepts it.
func (s *session) open(ctx context.Context, streams *sync.WaitGroup) {
	status, header, _, err := s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":` +
		`"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if err != nil || status != http.StatusOK {
		return
	}
	s.id = header.Get("Mcp-Session-Id")
	if status, _, _, err := s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil ||
		status != http.StatusAccepted {
		s.id = ""
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.u.url, nil)
	if err != nil {
		return
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", s.id)
	resp, err := (&http.Client{Transport: s.client.Transport}).Do(req) // for as long as the session
	if err != nil {
		s.id = ""
		return
	}
	streams.Go(func() {
		defer resp.Body.Close()
		_, err := io.Copy(io.Discard, resp.Body)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.u.Errorf("a stream is cut: %v", err)
		case resp.StatusCode == http.StatusOK:
			s.u.streams.Add(1)
		}
	})
}

// call makes a call and returns its outcome.
func (s *session) call(word string) string {
	status, _, text, err := s.post(call(1, "ext_journal_note", `{"word":"`+word+`"}`))
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return closed
	case err != nil:
		return unread
	case status == http.StatusNotFound:
		return ended
	case status != http.StatusOK:
		return said
	}
	if _, data, ok := strings.Cut(text, "data: "); ok { // as an event
		text, _, _ = strings.Cut(data, "\n")
	}
	return outcomeOf(text)
}
