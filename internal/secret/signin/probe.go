package signin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/protocol"
)

// Requests that MCP servers of the legacy or modern versions answer, or refuse with 401.
const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + protocol.MCP20251125 +
		`","capabilities":{},"clientInfo":` + clientInfo + `}}`
	legacyList = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	modernList = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"` + protocol.MetaProtocolVersion +
		`":"` + protocol.MCP20260728 + `","` +
		protocol.MetaClientInfo + `":` + clientInfo + `,"` + protocol.MetaClientCapabilities + `":{}}}}`
	clientInfo = `{"name":"exthost","version":"0"}`
)

// ask sends a request with a token, "" for none.
func (s *Server) ask(ctx context.Context, client *http.Client, token, body string, header http.Header,
) (*http.Response, error) {
	method, reader := http.MethodPost, io.Reader(strings.NewReader(body))
	if s.SSE {
		method, reader = http.MethodGet, nil
	}
	r, err := http.NewRequestWithContext(ctx, method, s.Place.URL, reader)
	if err != nil {
		return nil, err
	}
	for name := range header {
		r.Header.Set(name, header.Get(name))
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if !s.SSE {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the server cannot be reached: %w", plain(err))
	}
	return resp, nil
}

// challenge returns the parameters of the server's Bearer challenge. If the server refused no request, open says why
// no login may be needed; otherwise it is nil. Some servers refuse initialize, others only tools/list.
func (s *Server) challenge(ctx context.Context, client *http.Client) (params map[string]string, open, err error) {
	first, err := s.ask(ctx, client, "", initialize, nil)
	if err != nil {
		return nil, nil, err
	}
	defer first.Body.Close()
	last := first
	if !refused(first) && !s.SSE {
		body, header := modernList, http.Header{
			mcphttp.VersionHeader: {protocol.MCP20260728},
			mcphttp.MethodHeader:  {protocol.MethodToolsList},
		}
		if answered(first) {
			body, header = legacyList, http.Header{
				mcphttp.VersionHeader: {protocol.MCP20251125},
				mcphttp.SessionHeader: first.Header.Values(mcphttp.SessionHeader),
			}
		}
		if last, err = s.ask(ctx, client, "", body, header); err != nil {
			return nil, nil, err
		}
		defer last.Body.Close()
		s.leave(ctx, client, first)
	}
	switch {
	case refused(last):
		params, _ = logins.Bearer(last.Header.Values("WWW-Authenticate"))
	case answered(first), answered(last):
		open = ErrNone
	default:
		open = fmt.Errorf("the server answers %s, and asks for no login; check the url", short(last.Status))
	}
	return params, open, nil
}

func answered(r *http.Response) bool { return r.StatusCode < 300 }

func refused(r *http.Response) bool {
	return r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden
}

// try checks that the server accepts a token.
func (s *Server) try(ctx context.Context, client *http.Client, token string) error {
	resp, err := s.ask(ctx, client, token, initialize, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if refused(resp) {
		next := ""
		if scopes := logins.WantedScopes(resp.Header.Values("WWW-Authenticate")); scopes != nil {
			next = "; exthost secret login " + s.Place.ID + " --scope " + strings.Join(scopes, ",")
		}
		return fmt.Errorf("the server refuses the token that its authorization server has given (%s)%s",
			short(resp.Status), next)
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return fmt.Errorf("the server redirects (%s), which is not followed with a token; make the address where it "+
			"leads the url", short(resp.Status))
	}
	s.leave(ctx, client, resp)
	return nil
}

// leave ends the session that initialize started, if any.
func (s *Server) leave(ctx context.Context, client *http.Client, resp *http.Response) {
	session := resp.Header.Get(mcphttp.SessionHeader)
	if session == "" {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.Place.URL, nil)
	if err != nil {
		return
	}
	r.Header.Set(mcphttp.SessionHeader, session)
	if auth := resp.Request.Header.Get("Authorization"); auth != "" {
		r.Header.Set("Authorization", auth)
	}
	if end, err := client.Do(r); err == nil { // errors are ignored: servers may refuse
		_ = end.Body.Close()
	}
}

// ErrNone is returned for a server that needs no login.
var ErrNone = errors.New("the server answers without a login")
