package rawclient

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// received holds the messages that a process has sent, and the requests it has not answered. Its methods are safe for
// concurrent use.
type received struct {
	mu            sync.Mutex
	pending       map[string]chan jsonrpc.Message // by key of the id; nil once answered
	notifications []jsonrpc.Message               // the first maxNotifications
	violations    []violation
}

// violation is a line of stdout that is neither an expected answer nor a notification.
type violation struct {
	text        string
	unsolicited bool // a response without a request
}

func (r *received) violate(unsolicited bool, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, violation{fmt.Sprintf(format, args...), unsolicited})
}

// Expect registers a request with that id and returns the channel of its response.
func (r *received) Expect(id string) <-chan jsonrpc.Message {
	answer := make(chan jsonrpc.Message, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[key(json.RawMessage(id))] = answer
	return answer
}

// maxNotifications is how many notifications are stored.
const maxNotifications = 10_000

func (r *received) notify(m jsonrpc.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.notifications) < maxNotifications {
		r.notifications = append(r.notifications, m)
	}
}

func (r *received) deliver(m jsonrpc.Message) {
	r.mu.Lock()
	answer, requested := r.pending[key(m.ID)]
	if requested {
		r.pending[key(m.ID)] = nil
	}
	r.mu.Unlock()
	switch {
	case answer != nil:
		answer <- m // buffered
	case requested:
		r.violate(false, "%s is a second answer", quote(m.Raw))
	default:
		r.violate(true, "%s answers nothing that was asked", quote(m.Raw))
	}
}

func quote(text []byte) string { return display.CutWords(string(text), MaxQuote) }

// key identifies an id: numbers by their text, strings by their decoded text.
func key(id json.RawMessage) string {
	if text, ok := rawjson.Text(id); ok {
		return "\"" + text
	}
	return string(id)
}

func (r *received) violationTexts() (texts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.violations {
		texts = append(texts, v.text)
	}
	return texts
}

// TakeUnsolicited removes and returns the violations that are responses without a request.
func (r *received) TakeUnsolicited() (texts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rest []violation
	for _, v := range r.violations {
		if v.unsolicited {
			texts = append(texts, v.text)
		} else {
			rest = append(rest, v)
		}
	}
	r.violations = rest
	return texts
}

// Progress returns the progress notifications with the token, in order.
func (r *received) Progress(token string) (list []jsonrpc.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.notifications {
		if m.Method == "notifications/progress" && string(rawjson.Get(m.Params, "progressToken")) == token {
			list = append(list, m)
		}
	}
	return list
}

// Count returns the number of notifications of a method.
func (r *received) Count(method string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.notifications {
		if m.Method == method {
			n++
		}
	}
	return n
}
