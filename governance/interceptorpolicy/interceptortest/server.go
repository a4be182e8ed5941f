// Package interceptortest serves interceptors on stdio, for tests of their hosts.
package interceptortest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/exthost/exthost/internal/rawjson"
)

// Server is an MCP server with scripted interceptors.
type Server struct {
	List   func() string                                // the elements of the list, as JSON between brackets
	Invoke func(params json.RawMessage) (string, error) // the result as JSON; it runs on a goroutine of its own

	mu  sync.Mutex
	out io.Writer
}

// Serve answers requests until in ends. Invocations that have not ended by then are left.
func (s *Server) Serve(in io.Reader, out io.Writer) error {
	s.out = out
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		id, params := rawjson.Get(line, "id"), rawjson.Get(line, "params")
		switch method, _ := rawjson.Text(rawjson.Get(line, "method")); {
		case id == nil:
		case method == "initialize":
			s.write(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%s,"capabilities":{},"serverInfo":{"name":"interceptors","version":"1"}}}`, id, rawjson.Get(params, "protocolVersion"))
		case method == "ping":
			s.write(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
		case method == "interceptors/list":
			s.write(`{"jsonrpc":"2.0","id":%s,"result":{"interceptors":%s}}`, id, s.List())
		case method == "interceptor/invoke":
			go s.invoke(id, params)
		default:
			s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
		}
	}
}

func (s *Server) invoke(id, params json.RawMessage) {
	result, err := s.Invoke(params)
	if err != nil {
		s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%s}}`, id, rawjson.Quote(err.Error()))
		return
	}
	s.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// Changed says that the list has changed.
func (s *Server) Changed() {
	s.write(`{"jsonrpc":"2.0","method":"notifications/interceptors/list_changed"}`)
}

func (s *Server) write(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, format+"\n", args...) // on an error the next read ends, too
}
