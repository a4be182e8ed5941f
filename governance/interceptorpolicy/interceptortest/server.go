// Package interceptortest serves interceptors, for tests of their hosts.
package interceptortest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Server is an MCP server with scripted interceptors.
type Server struct {
	List   func() string                                // the elements of the list, as JSON between brackets
	Invoke func(params json.RawMessage) (string, error) // the result as JSON; called by many goroutines at once

	mu  sync.Mutex
	out io.Writer
}

// Serve answers requests until in ends. Those that have no answer by then are left.
func (s *Server) Serve(in io.Reader, out io.Writer) error {
	s.out = out
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		go func() {
			if answer := s.Answer(line); answer != "" {
				s.write(answer)
			}
		}()
	}
}

// Answer returns the answer to one message; "" to a notification.
func (s *Server) Answer(message json.RawMessage) string {
	id, params := rawjson.Get(message, "id"), rawjson.Get(message, "params")
	result := func(format string, args ...any) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, fmt.Sprintf(format, args...))
	}
	switch method, _ := rawjson.Text(rawjson.Get(message, "method")); {
	case id == nil:
		return ""
	case method == "initialize":
		return result(`{"protocolVersion":%s,"capabilities":{},"serverInfo":{"name":"interceptors","version":"1"}}`,
			rawjson.Get(params, "protocolVersion"))
	case method == "ping":
		return result(`{}`)
	case method == "interceptors/list":
		return result(`{"interceptors":%s}`, s.List())
	case method == "interceptor/invoke":
		answer, err := s.Invoke(params)
		if err == nil {
			return result("%s", answer)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%s}}`, id,
			rawjson.Quote(err.Error()))
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
}

// ListChanged is the message that says so.
const ListChanged = `{"jsonrpc":"2.0","method":"notifications/interceptors/list_changed"}`

// Changed sends [ListChanged]; without Serve, it does nothing.
func (s *Server) Changed() {
	if s.out != nil {
		s.write(ListChanged)
	}
}

func (s *Server) write(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, message+"\n") // on an error the next read ends, too
}
