package docs_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// clientServer is what every client wants to know of a server, whatever it calls
// the table around it.
type clientServer struct {
	Command string   `json:"command" toml:"command"`
	Args    []string `json:"args" toml:"args"`
	URL     string   `json:"url" toml:"url"`
	Type    string   `json:"type" toml:"type"`
}

// client connects as the client would that was given the block as its file.
func (r *runner) client(b *block) {
	r.Helper()
	text := r.actual(strings.ReplaceAll(b.text, "/path/to", r.dir))
	var file map[string]map[string]clientServer
	var err error
	if b.lang == "toml" {
		_, err = toml.Decode(text, &file)
	} else {
		err = json.Unmarshal([]byte(text), &file)
	}
	if err != nil {
		r.fail("%v", err)
	}
	tried := 0
	for _, servers := range file {
		for name, s := range servers {
			tried++
			if n := r.listTools(s); n == 0 {
				r.fail("%s offers no tools", name)
			}
		}
	}
	if tried == 0 {
		r.fail("no server in it")
	}
}

func (r *runner) listTools(s clientServer) int {
	r.Helper()
	var transport mcp.Transport = &mcp.CommandTransport{Command: r.command(s.Command, s.Args...)}
	switch {
	case s.Command == "exthost":
		cmd := r.command(program(r), s.Args...)
		// its host in the background ends with the client
		cmd.Env = append(slices.Clone(cmd.Env), "EXTHOST_SERVER_IDLE_EXIT=1ms")
		transport = &mcp.CommandTransport{Command: cmd}
	case s.Type == "sse":
		transport = &mcp.SSEClientTransport{Endpoint: s.URL}
	case s.URL != "":
		transport = &mcp.StreamableClientTransport{Endpoint: s.URL}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "docs", Version: "1"}, nil).Connect(r.Context(), transport,
		nil)
	if err != nil {
		r.fail("%v", err)
	}
	defer session.Close()
	result, err := session.ListTools(r.Context(), nil)
	if err != nil {
		r.fail("%v", err)
	}
	return len(result.Tools)
}
