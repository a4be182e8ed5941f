package peertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// goClient is the official Go client as a program like those in testdata: it connects to the endpoint in its last
// argument, lists the tools, makes the calls and prints a report.
func goClient() error {
	var o struct {
		Endpoint endpoint
		Calls    []call
	}
	if err := json.Unmarshal([]byte(os.Args[len(os.Args)-1]), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	v := &report{}
	session, err := o.Endpoint.connect(ctx, v)
	if err != nil {
		return err
	}
	v.Version = session.InitializeResult().ProtocolVersion
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		v.Tools = append(v.Tools, tool.Name)
	}
	for _, c := range o.Calls {
		var a answer
		got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: c.Name, Arguments: c.Arguments})
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
			a.Code, a.Message = int(wire.Code), wire.Message
		} else if err != nil {
			return err
		} else if err := json.Unmarshal([]byte(encode(got)), &a.Result); err != nil {
			return err
		}
		v.Calls = append(v.Calls, a)
	}
	return errors.Join(session.Close(), print(v))
}

// connect connects a client whose person is at stdin. If the person is gone, it prints v and exits.
func (p endpoint) connect(ctx context.Context, v *report) (*mcp.ClientSession, error) {
	var o mcp.ClientOptions
	if p.Asks {
		var mu sync.Mutex // guards answers: a form may stay open after the call that it is about
		answers := bufio.NewScanner(os.Stdin)
		o.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			if err := print(map[string]string{"asked": r.Params.Message}); err != nil {
				return nil, err
			}
			answers.Scan()
			if answers.Text() == "gone" {
				_ = print(v)
				os.Exit(0)
			}
			return &mcp.ElicitResult{Action: answers.Text()}, nil
		}
	}
	var command *exec.Cmd
	if p.Transport == "stdio" {
		command = exec.Command(p.Command[0], p.Command[1:]...)
		command.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool {
			return strings.HasPrefix(pair, processtest.ScriptVar+"=") // of this program
		})
		for name, value := range p.Env {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	return mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, &o).Connect(ctx,
		p.transport(command, &http.Client{Transport: bearing(p.Token)}), p.pinned())
}

// bearing sends the token, if it is not "", with each request.
type bearing string

// RoundTrip implements [http.RoundTripper].
func (token bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	if token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(token))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// print prints v as a line.
func print(v any) error {
	_, err := os.Stdout.WriteString(encode(v) + "\n")
	return err
}
