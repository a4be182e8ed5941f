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

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

func probeHandshake(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	if len(w.early) > 0 {
		return fmt.Errorf("before the answer: %s", strings.Join(w.early, "\n"))
	}
	if s.speaks == manifest.ProtocolNative {
		version, _ := rawjson.Text(rawjson.Get(w.opening, "server_version"))
		if version != "" && version != s.status.Version {
			return hintf("it says that it is version %s, its manifest %s", version, s.status.Version)
		}
	}
	return passf("after %v", w.took.Round(time.Millisecond))
}

func probePing(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	method := protocol.MethodPing
	if w.meta != "" {
		method = protocol.MethodDiscover // a stateless server has no ping
	}
	m, err := w.ask(ctx, method, "{}")
	if err != nil {
		return err
	}
	if e := rpcError(m); e != nil {
		return fmt.Errorf("it is refused: %s (%d); the host takes that for a child that hangs, where health_interval is set", e.Message, e.Code)
	}
	return nil
}

// nowhere is a method that no extension has.
const nowhere = "exthost-check/no-such-method"

// lateWait is how much later than the next an answer may come.
const lateWait = time.Second

func probeIDs(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	echoes := func(id string) error {
		answer := w.expect(id)
		if err := w.write(w.request(id, nowhere, "{}")); err != nil {
			return err
		}
		if err := w.answers(ctx); err != nil {
			return err
		}
		select {
		case <-answer:
			return nil
		case <-time.After(lateWait):
			return fmt.Errorf("the request with the id %s is not answered, and the next one is: an answer has to carry the very id of its request", id)
		}
	}
	ids := []string{"5", "9007199254740991"}
	if s.speaks != manifest.ProtocolLite {
		ids = append(ids, `"text"`, `"é☃ \"quoted\""`)
	}
	for _, id := range ids {
		if err := echoes(id); err != nil {
			return err
		}
	}
	return nil
}

func probeRelist(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	m, err := w.ask(ctx, protocol.MethodToolsList, "{}")
	if err != nil {
		return err
	}
	if e := rpcError(m); e != nil && s.speaks == manifest.ProtocolNative {
		return hintf("it is refused (%s); the host asks for it after notifications/tools/list_changed", e.Message)
	} else if e != nil && len(s.entries()) > 0 {
		return fmt.Errorf("it is refused: %s (%d)", e.Message, e.Code)
	}
	if s.speaks != manifest.ProtocolNative {
		return nil
	}
	listed, offered := rawjson.Get(m.Result, "tools"), rawjson.Get(w.opening, "tools")
	if !sameJSON(orEmpty(listed), orEmpty(offered)) {
		return errors.New("its tools are not those of the handshake")
	}
	return nil
}

func probeUnknownMethod(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	m, err := w.ask(ctx, nowhere, "{}")
	if err != nil {
		return err
	}
	switch e := rpcError(m); {
	case e == nil && s.speaks == manifest.ProtocolLite:
		return hintf("it answers %s with %s, and not with an error", nowhere, cut(string(m.Result)))
	case e == nil:
		return fmt.Errorf("it answers %s with the result %s", nowhere, cut(string(m.Result)))
	case e.Code != jsonrpc.CodeMethodNotFound && s.speaks != manifest.ProtocolLite:
		return fmt.Errorf("its error is %d: %s; that of an unknown method is %d", e.Code, e.Message, jsonrpc.CodeMethodNotFound)
	}
	return nil
}

func probeUnknownTool(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	m, err := w.ask(ctx, protocol.MethodToolsCall, `{"name":"exthost_check_no_such_tool","arguments":{}}`)
	if err != nil {
		return err
	}
	if text, failed := said(m); !failed {
		return fmt.Errorf("it answers with the result %s", cut(text))
	}
	return nil
}

func probeMissingParams(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	for _, params := range []string{"{}", `{"name":7}`} {
		m, err := w.ask(ctx, protocol.MethodToolsCall, params)
		if err != nil {
			return err
		}
		if text, failed := said(m); !failed {
			return fmt.Errorf("it answers a call with the params %s with the result %s", params, cut(text))
		}
	}
	return nil
}

func probeInvalidArguments(ctx context.Context, s *subject) error {
	w, err := s.converse(ctx)
	if err != nil {
		return err
	}
	tried := 0
	var lenient []string
	for _, e := range s.entries() {
		for _, arguments := range misfits(e.InputSchema) {
			if !s.mayCall(e) || e.Validate(arguments) == nil {
				continue
			}
			tried++
			c := &fixtureCall{Tool: e.Tool, Arguments: arguments}
			if text, failed, err := w.call(ctx, c); err != nil {
				return err
			} else if !failed {
				lenient = append(lenient, fmt.Sprintf("%s is taken and gives %s", c, cut(text)))
			}
		}
	}
	if tried == 0 {
		return skipf("no tool that may be called requires an argument")
	}
	if len(lenient) > 0 { // the host checks before, so that it does no harm there
		return complaints(Hint, lenient)
	}
	return nil
}

// misfits are arguments that a schema with anything required does not allow.
func misfits(schema json.RawMessage) (all []json.RawMessage) {
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
