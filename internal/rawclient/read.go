package rawclient

import (
	"encoding/json"
	"fmt"

	"github.com/exthost/exthost/internal/display"
	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
)

// violation is a line of stdout that is neither an expected answer nor a notification.
type violation struct {
	text        string
	unsolicited bool // an answer without a request
}

// noise records a line that is not a frame.
func (c *Client) noise(line []byte, err error) error {
	c.violate(false, "%q is no frame: %v", display.Cut(string(line), MaxQuote), err)
	return nil
}

func (c *Client) violate(unsolicited bool, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, violation{fmt.Sprintf(format, args...), unsolicited})
}

// maxNotifications bounds the notifications that are stored.
const maxNotifications = 10_000

// read handles the messages of the process until its stdout ends.
func (c *Client) read() {
	defer close(c.ended)
	for {
		m, err := c.lines.Read()
		if err != nil {
			return
		}
		switch {
		case m.Method != "" && m.ID != nil:
			_ = c.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)) // fails when the process has ended
		case m.Method != "":
			c.mu.Lock()
			if len(c.notifications) < maxNotifications {
				c.notifications = append(c.notifications, m)
			}
			c.mu.Unlock()
		default:
			c.deliver(m)
		}
	}
}

// deliver passes an answer to its request.
func (c *Client) deliver(m jsonrpc.Message) {
	quote := func() string { return display.Cut(string(m.Raw), MaxQuote) }
	if m.Invalid == nil && m.Bare && c.o.Protocol != manifest.ProtocolLite {
		c.violate(false, `the answer %s is without "jsonrpc":"2.0"`, quote())
	}
	c.mu.Lock()
	answer, requested := c.pending[key(m.ID)]
	if requested {
		c.pending[key(m.ID)] = nil
	}
	c.mu.Unlock()
	switch {
	case answer != nil:
		answer <- m // has a buffer of one
	case requested:
		c.violate(false, "%s is a second answer", quote())
	default:
		c.violate(true, "%s answers nothing that was asked", quote())
	}
}

// key identifies an id: numbers by their text, strings by their decoded text.
func key(id json.RawMessage) string {
	if text, ok := rawjson.Text(id); ok {
		return "\"" + text
	}
	return string(id)
}

func (c *Client) violationTexts() (texts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.violations {
		texts = append(texts, v.text)
	}
	return texts
}

// TakeUnsolicited removes and returns the violations that are answers without a request.
func (c *Client) TakeUnsolicited() (texts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rest []violation
	for _, v := range c.violations {
		if v.unsolicited {
			texts = append(texts, v.text)
		} else {
			rest = append(rest, v)
		}
	}
	c.violations = rest
	return texts
}

// Progress returns the progress notifications with the token, in order.
func (c *Client) Progress(token string) (list []jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.notifications {
		if m.Method == "notifications/progress" && string(rawjson.Get(m.Params, "progressToken")) == token {
			list = append(list, m)
		}
	}
	return list
}

// Count returns the number of notifications of a method.
func (c *Client) Count(method string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.notifications {
		if m.Method == method {
			n++
		}
	}
	return n
}
