package stats

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// Although masks shorten a text, its last recorded bytes are not shown: another secret may be cut off there.
func TestMaskDoesNotExposeTheEdge(t *testing.T) {
	const one, other = "first-canary", "second-canary"
	secret := strings.Repeat(one, 20)
	p := &History{Mask: func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, secret, "***"), other, "***")
	}}
	e := endedCall("")
	text := `{"a":"` + strings.Repeat(secret, 10) + `","b":"`
	text += strings.Repeat("l", maxText+ahead-len(text)-len("second-can")) + other + `"}`
	e.Request = json.RawMessage(text)
	e.Err = errors.New(secret + strings.Repeat("l", maxMessage+ahead-len(secret)-len("second-can")) + other)
	call, err := p.Call(p.End(e))
	if err != nil || strings.Contains(call.Request.Text, "second") || strings.Contains(call.Request.Text, "first") {
		t.Errorf("%q, %v", call.Request.Text, err)
	}
	if !strings.HasPrefix(call.Message, "***l") || strings.Contains(call.Message, "second") ||
		call.Message != p.Message(e.Err) {
		t.Errorf("kept %q, live %q", call.Message, p.Message(e.Err))
	}
}

// The names of a recorded call are bounded.
func TestKeptNamesAreBounded(t *testing.T) {
	p := &History{}
	e := endedCall("")
	e.Method, e.Tool, e.Entry = strings.Repeat("m", 1<<20), strings.Repeat("t", 1<<20), false
	id := p.End(e)
	call, err := p.Call(id)
	if err != nil || len(call.Method) > maxName || len(call.Tool) > maxName {
		t.Errorf("%d bytes, %d bytes, %v", len(call.Method), len(call.Tool), err)
	}
}

// The message of a call is masked like its payloads, outside of the lock.
func TestMessagesAreMasked(t *testing.T) {
	var p *History
	p = &History{Mask: func(s string) string {
		if !p.mu.TryLock() {
			t.Error("it masks under the lock")
			return s
		}
		p.mu.Unlock()
		return strings.ReplaceAll(s, "canary", "***")
	}}
	e := endedCall("failed")
	e.Err, e.Request = errors.New("the password canary is wrong"), json.RawMessage(`{}`)
	id := p.End(e)
	one, err := p.Call(id)
	if list := p.Calls(1); err != nil || list[0].Message != one.Message || strings.Contains(one.Message, "canary") {
		t.Errorf("%q, %q, %v", list[0].Message, one.Message, err)
	}
}
