package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// following is a backend with resources, one of which cannot be subscribed to.
type following struct{ *fake }

func (f following) Describe(_ context.Context, s *protocol.Session) (protocol.Description, error) {
	if s.Extension == "none" {
		return protocol.Description{}, protocol.Errorf(protocol.ToolNotFound, "there is no extension %q", s.Extension)
	}
	return protocol.Description{
		Capabilities: json.RawMessage(`{"resources":{"subscribe":true}}`),
		Instructions: "advice for " + s.Extension,
		ServerInfo:   json.RawMessage(`{"name":"its own","version":"7","title":"with more"}`),
	}, nil
}

func (f following) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	if strings.Contains(string(c.Params), "x://bad") {
		return nil, protocol.Errorf(protocol.InvalidArguments, "no such resource")
	}
	return f.fake.Do(ctx, c)
}

// A subscription gets updates only of the granted resources.
func TestListenFollowsResources(t *testing.T) {
	b := following{newFake()}
	url := serveHTTP(t, mcpserver.New(b, mcpserver.Options{})).URL + "/mcp"
	body := `{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x://a","x://bad"]},` + metaOnly + `}}`
	heard := events(do(t, http.MethodPost, url, mirrored(body), body).Body)
	if c := get(t, b.calls, "the subscription"); c.Method != "resources/subscribe" ||
		string(c.Params) != `{"uri":"x://a"}` || c.Session == nil {
		t.Errorf("%+v", c)
	}
	if got := get(t, heard, "the acknowledgement"); !strings.Contains(got,
		`"notifications":{"resourceSubscriptions":["x://a"]}`) {
		t.Errorf("granted: %s", got)
	}
	client := get(t, b.attached, "the session").Client
	for _, uri := range []string{"x://other", "x://a"} {
		if err := client.Notify(t.Context(), "notifications/resources/updated",
			json.RawMessage(fmt.Sprintf(`{"uri":%q,"n":12345678901234567890}`, uri))); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, heard, "the update"); got !=
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://a","n":12345678901234567890,"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"}}}` {
		t.Errorf("heard %s", got)
	}
}

// The handshake contains the Describer's description.
func TestDescriber(t *testing.T) {
	s := mcpserver.New(following{newFake()}, mcpserver.Options{Instructions: "not this"})
	mux := http.NewServeMux()
	for _, id := range []string{"one", "none"} {
		mux.Handle("/"+id, s.Handler(id))
	}
	front := httptest.NewServer(mux)
	defer front.Close()
	discover := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + metaOnly + `}}`
	for path, want := range map[string]string{"/one": "advice for one", "/none": "there is no extension"} {
		for _, body := range []string{initialize, discover} {
			h := http.Header(nil)
			if body == discover {
				h = mirrored(body)
			}
			if got := text(t, do(t, http.MethodPost, front.URL+path, h, body)); !strings.Contains(got, want) ||
				path == "/one" &&
					!strings.Contains(got, `erverInfo":{"name":"its own","version":"7","title":"with more"}`) {
				t.Errorf("%s: %s", path, got)
			}
		}
	}
	s.Close()
}
