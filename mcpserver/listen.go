package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// offers is what the server's capabilities say about changes it announces.
type offers struct {
	Tools     offer `json:"tools"`
	Prompts   offer `json:"prompts"`
	Resources offer `json:"resources"`
}

type offer struct {
	ListChanged bool `json:"listChanged"`
	Subscribe   bool `json:"subscribe"` // of resources
}

// interests is what a subscriptions/listen asks for and its acknowledgement grants.
type interests struct {
	Tools     bool `json:"toolsListChanged,omitempty"`
	Prompts   bool `json:"promptsListChanged,omitempty"`
	Resources bool `json:"resourcesListChanged,omitempty"`

	URIs []string `json:"resourceSubscriptions,omitempty"`
}

// maxFollowed bounds the resources that one subscription follows.
const maxFollowed = 256

func (i interests) include(method string, params json.RawMessage) bool {
	switch method {
	case protocol.MethodResourceUpdated:
		uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
		return slices.Contains(i.URIs, uri)
	case protocol.MethodToolsListChanged:
		return i.Tools
	case protocol.MethodPromptsListChanged:
		return i.Prompts
	case protocol.MethodResourcesListChanged:
		return i.Resources
	}
	return false
}

// subscription is the client of a session that lives as long as one
// subscriptions/listen: it hears what it asked for, marked with the id of that
// request, and cannot be asked anything.
type subscription struct {
	id           json.RawMessage
	interests    interests
	write        writer
	acknowledged chan struct{} // closed once the client may be told something
}

// subscribe opens the subscription that the request m asks for, which lasts until
// ctx ends. The acknowledgement is the first thing to go out by write.
func (s *Server) subscribe(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, write writer) error {
	var wanted *interests
	if err := json.Unmarshal(rawjson.Get(m.Params, "notifications"), &wanted); err != nil || wanted == nil {
		return invalidParams(protocol.MethodListen + " needs notifications, an object")
	}
	d, err := s.describe(ctx, session)
	if err != nil {
		return err
	}
	var offered offers
	_ = json.Unmarshal(d.Capabilities, &offered) // what is malformed is not offered
	sub := &subscription{id: m.ID, write: write, acknowledged: make(chan struct{}), interests: interests{
		Tools:     wanted.Tools && offered.Tools.ListChanged,
		Prompts:   wanted.Prompts && offered.Prompts.ListChanged,
		Resources: wanted.Resources && offered.Resources.ListChanged,
	}}
	session.Client = sub
	if !offered.Resources.Subscribe {
		wanted.URIs = nil
	}
	if len(wanted.URIs) > maxFollowed {
		return invalidParams(fmt.Sprintf("%s follows at most %d resources", protocol.MethodListen, maxFollowed))
	}
	sub.interests.URIs = wanted.URIs
	if err := s.backend.Attach(ctx, session); err != nil {
		return err
	}
	heard := sub.interests
	heard.URIs = s.followResources(ctx, session, wanted.URIs)
	granted, _ := json.Marshal(heard) // booleans and strings always encode
	params := append(append([]byte(`{"notifications":`), granted...), '}')
	if err := write(ctx, &jsonrpc.Message{Method: protocol.MethodSubscriptionAcknowledged, Params: sub.mark(params)}); err != nil {
		return err
	}
	close(sub.acknowledged)
	return nil
}

// followResources subscribes, on behalf of a session that ends with its
// subscription, to resources, and returns those that it will hear of.
func (s *Server) followResources(ctx context.Context, session *protocol.Session, uris []string) (granted []string) {
	for _, uri := range uris {
		params := append(rawjson.AppendText([]byte(`{"uri":`), uri), '}')
		_, err := s.backend.Do(ctx, &protocol.Call{Session: session, Extension: session.Extension, Method: protocol.MethodResourcesSubscribe, Params: params})
		if err != nil {
			s.log.Debug("a resource cannot be followed", "uri", uri, "error", err)
			continue
		}
		granted = append(granted, uri)
	}
	return granted
}

// Notify implements [protocol.Peer].
func (s *subscription) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if !s.interests.include(method, params) {
		return nil
	}
	select {
	case <-s.acknowledged:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.write(ctx, &jsonrpc.Message{Method: method, Params: s.mark(params)})
}

// Call implements [protocol.Peer].
func (s *subscription) Call(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.ToolNotFound, "a subscription cannot be asked %s", method)
}

// mark returns params with the subscription's id in their _meta.
func (s *subscription) mark(params json.RawMessage) json.RawMessage {
	meta := rawjson.Set(rawjson.Get(params, "_meta"), protocol.MetaSubscriptionID, s.id)
	return rawjson.Set(params, "_meta", meta)
}

// endOfSubscription is the answer to the subscriptions/listen with the given id
// when it is the server that ends it.
func endOfSubscription(id json.RawMessage) json.RawMessage {
	result := append([]byte(`{"resultType":"complete","_meta":{"`+protocol.MetaSubscriptionID+`":`), id...)
	return append(result, "}}"...)
}
