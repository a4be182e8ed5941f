package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// calls answers the calls of a gateway.
type calls struct {
	Calls
	answer func(c *protocol.Call) (json.RawMessage, error)
}

func (c calls) DoPart(_ context.Context, call *protocol.Call) (json.RawMessage, error) {
	return c.answer(call)
}

// An extension whose second page fails is left out of a list: its remaining items would have no known owner.
func TestBrokenListIsLeftOut(t *testing.T) {
	g := &Gateway{
		o: Options{Log: slog.New(slog.DiscardHandler)},
		Calls: calls{answer: func(c *protocol.Call) (json.RawMessage, error) {
			if rawjson.Get(c.Params, "cursor") != nil {
				return nil, errors.New("no second page")
			}
			return json.RawMessage(`{"resources":[{"uri":"note://1"}],"nextCursor":"2"}`), nil
		}},
	}
	list, err := g.listOne(t.Context(), new(protocol.Call), "x", listings[0])
	if err == nil || len(list.items) > 0 {
		t.Errorf("%s, %v", list.items, err)
	}
}

// A list ends at its bound in bytes: pages may be as long as a line, and each request holds all of them in memory.
func TestListOfLongPagesEnds(t *testing.T) {
	text, asked := strings.Repeat("x", maxListedBytes/4), 0
	g := &Gateway{
		o: Options{Log: slog.New(slog.DiscardHandler)},
		Calls: calls{answer: func(*protocol.Call) (json.RawMessage, error) {
			asked++
			return fmt.Appendf(nil, `{"resources":[{"uri":"note://%d","description":"%s"}],"nextCursor":"%d"}`, asked,
				text, asked), nil
		}},
	}
	list, err := g.listOne(t.Context(), new(protocol.Call), "x", listings[0])
	if err != nil || len(list.items) != 3 || asked != 4 {
		t.Errorf("%d things of %d pages, %v", len(list.items), asked, err)
	}
}

// A server that does not have the method of a list has no items, which is worth no warning; any other error is.
func TestServerWithoutAList(t *testing.T) {
	for code, warned := range map[int]bool{jsonrpc.CodeMethodNotFound: false, -32000: true} {
		var log bytes.Buffer
		g := &Gateway{
			o: Options{Log: slog.New(slog.NewTextHandler(&log, nil))},
			Calls: calls{answer: func(*protocol.Call) (json.RawMessage, error) {
				return nil, &protocol.Error{Kind: protocol.ExtensionError, Code: code, Message: "no"}
			}},
		}
		list, err := g.listOne(t.Context(), new(protocol.Call), "x", listings[1])
		if len(list.items) > 0 || (err != nil) != warned || (log.Len() > 0) != warned {
			t.Errorf("%d: %v, %v, log %s", code, list.items, err, log.String())
		}
	}
}
