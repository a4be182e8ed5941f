package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/authoring/rawclient"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

func (s *subject) probeHandshake(ctx context.Context, c *rawclient.Client) error {
	if len(c.Early) > 0 {
		return fmt.Errorf("before the answer: %s", strings.Join(c.Early, "\n"))
	}
	if s.protocol == manifest.ProtocolNative {
		version, _ := rawjson.Text(rawjson.Get(c.Result, "server_version"))
		if version != "" && version != s.status.Version {
			return hintf("it says that it is version %s, its manifest %s", version, s.status.Version)
		}
	}
	return passf("after %v", c.HandshakeTime.Round(time.Millisecond))
}

func (s *subject) probePing(ctx context.Context, c *rawclient.Client) error {
	method := protocol.MethodPing
	if c.Stateless() {
		method = protocol.MethodDiscover // a stateless server does not support ping
	}
	m, err := c.Ask(ctx, method, "{}")
	if err != nil {
		return err
	}
	if e := rawclient.Error(m); e != nil {
		return fmt.Errorf("it is refused: %s (%d); the host takes that for a child that hangs, where health_interval "+
			"is set", e.Message, e.Code)
	}
	return nil
}

// unknownMethod is a method that no extension supports.
const unknownMethod = "exthost-check/no-such-method"

// lateAnswer is how long to wait for a response after the next request has been answered.
const lateAnswer = time.Second

func (s *subject) probeIDs(ctx context.Context, c *rawclient.Client) error {
	echoes := func(id string) error {
		answer := c.Expect(id)
		if err := c.Write(c.Request(id, unknownMethod, "{}")); err != nil {
			return err
		}
		if err := responds(ctx, c); err != nil {
			return err
		}
		select {
		case <-answer:
			return nil
		case <-time.After(lateAnswer):
			return fmt.Errorf("the request with the id %s is not answered, and the next one is: an answer has to "+
				"carry the very id of its request", id)
		}
	}
	ids := []string{"5", "9007199254740991"}
	if s.protocol != manifest.ProtocolLite {
		ids = append(ids, `"text"`, `"é☃ \"quoted\""`)
	}
	for _, id := range ids {
		if err := echoes(id); err != nil {
			return err
		}
	}
	return nil
}

func (s *subject) probeRelist(ctx context.Context, c *rawclient.Client) error {
	m, err := c.Ask(ctx, protocol.MethodToolsList, "{}")
	if err != nil {
		return err
	}
	if e := rawclient.Error(m); e != nil && s.protocol == manifest.ProtocolNative {
		return hintf("it is refused (%s); the host asks for it after notifications/tools/list_changed", e.Message)
	} else if e != nil && len(s.entries()) > 0 {
		return fmt.Errorf("it is refused: %s (%d)", e.Message, e.Code)
	}
	if s.protocol != manifest.ProtocolNative {
		return nil
	}
	listed, initial := rawjson.Get(m.Result, "tools"), rawjson.Get(c.Result, "tools")
	if !rawjson.Equal(rawclient.OrEmpty(listed), rawclient.OrEmpty(initial)) {
		return errors.New("its tools are not those of the handshake")
	}
	return nil
}

func (s *subject) probeUnknownMethod(ctx context.Context, c *rawclient.Client) error {
	m, err := c.Ask(ctx, unknownMethod, "{}")
	if err != nil {
		return err
	}
	switch e := rawclient.Error(m); {
	case e == nil && s.protocol == manifest.ProtocolLite:
		return hintf("it answers %s with %s, and not with an error", unknownMethod, cut(string(m.Result)))
	case e == nil:
		return fmt.Errorf("it answers %s with the result %s", unknownMethod, cut(string(m.Result)))
	case e.Code != jsonrpc.CodeMethodNotFound && s.protocol != manifest.ProtocolLite:
		return fmt.Errorf("its error is %d: %s; that of an unknown method is %d", e.Code, e.Message,
			jsonrpc.CodeMethodNotFound)
	}
	return nil
}

func (s *subject) probeUnknownTool(ctx context.Context, c *rawclient.Client) error {
	m, err := c.Ask(ctx, protocol.MethodToolsCall, `{"name":"exthost_check_no_such_tool","arguments":{}}`)
	if err != nil {
		return err
	}
	if text, failed := textOf(m); !failed {
		return fmt.Errorf("it answers with the result %s", cut(text))
	}
	return nil
}

func (s *subject) probeMissingParams(ctx context.Context, c *rawclient.Client) error {
	for _, params := range []string{"{}", `{"name":7}`} {
		m, err := c.Ask(ctx, protocol.MethodToolsCall, params)
		if err != nil {
			return err
		}
		if text, failed := textOf(m); !failed {
			return fmt.Errorf("it answers a call with the params %s with the result %s", params, cut(text))
		}
	}
	return nil
}

func (s *subject) probeInvalidArguments(ctx context.Context, c *rawclient.Client) error {
	tried := 0
	var lenient []string
	for _, e := range s.entries() {
		for _, arguments := range invalidArguments(e.InputSchema) {
			if !s.mayCall(e) || e.Validate(arguments) == nil {
				continue
			}
			tried++
			call := &fixtureCall{Tool: e.Tool, Arguments: arguments}
			if text, failed, err := callRaw(ctx, c, call); err != nil {
				return err
			} else if !failed {
				lenient = append(lenient, fmt.Sprintf("%s is taken and gives %s", call, cut(text)))
			}
		}
	}
	if tried == 0 {
		return skipf("no tool that may be called requires an argument")
	}
	if len(lenient) > 0 { // the host validates arguments first, so this is harmless
		return issues(Hint, lenient)
	}
	return nil
}

// invalidArguments returns arguments that violate a schema with required properties.
func invalidArguments(schema json.RawMessage) (all []json.RawMessage) {
	s := shapeOf(schema)
	if len(s.Required) == 0 {
		return nil
	}
	all = append(all, json.RawMessage("{}"))
	odd := json.RawMessage("{}")
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		odd = rawjson.Set(odd, name, json.RawMessage(`{"exthost-check":[null]}`))
	}
	return append(all, odd)
}
