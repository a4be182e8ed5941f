package exthost_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
)

// A host with one extension, whose tool is a command line.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	manifest := `[plugin]
id = "greeter"
version = "0.1.0"
[transport]
kind = "exec"
command = "echo"
[[tools]]
name = "greet"
description = "Greets."
command = ["echo", "Hello!"]
`
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(manifest), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	ctx := context.Background()
	h, err := exthost.Open(ctx, cfg,
		exthost.Options{Logger: slog.New(slog.DiscardHandler), StateDir: filepath.Join(dir, "state")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()

	for _, tool := range h.Tools().Entries() {
		fmt.Println(tool.Name, tool.Description)
	}
	result, err := h.Call(ctx, "ext_greeter_greet", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text())
	// Output:
	// ext_greeter_greet [ext:greeter] Greets.
	// Hello!
}

// builder is the extension of the examples below.
func builder() *sdk.Extension {
	x := sdk.New("0.1.0")
	sdk.AddTool(x, sdk.Tool{Name: "build", Description: "Builds the project."},
		func(ctx context.Context, _ struct{}) (string, error) {
			for i, step := range []string{"compile", "link"} {
				sdk.Progress(ctx, float64(i+1), 2, step)
			}
			return "built", nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "watch", Description: "Builds the project at each change."},
		func(ctx context.Context, _ struct{}) (string, error) {
			sdk.Progress(ctx, 1, 0, "built")
			<-ctx.Done() // the caller has given up
			return "", ctx.Err()
		})
	return x
}

// open opens a host with the extension builder, as Example does, and returns what closes both.
func open(o exthost.Options) (h *exthost.Host, closeAll func()) {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	manifest := fmt.Sprintf(`[plugin]
id = "builder"
version = "0.1.0"
[capabilities]
tools = ["build", "watch"]
[transport]
command = %q
env = { %s = "builder" }
`, program, processtest.ScriptVar)
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(manifest), 0o600); err != nil {
		panic(err)
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	o.Logger, o.StateDir = slog.New(slog.DiscardHandler), filepath.Join(dir, "state")
	if h, err = exthost.Open(context.Background(), cfg, o); err != nil {
		panic(err)
	}
	return h, func() { h.Close(); os.RemoveAll(dir) }
}

// freeze is a policy: it forbids calls of some tools.
type freeze struct{ suffix string }

// Decide implements [governance.Policy]. The zero Decision allows the call.
func (f freeze) Decide(_ context.Context, _ governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if !strings.HasSuffix(x.Tool, f.suffix) {
		return governance.Decision{}, nil
	}
	return governance.Decision{Action: governance.Deny, Code: "frozen", Reason: "no builds on Fridays"}, nil
}

// A policy in Go. A call fails if the policy panics, returns an error or takes longer than its Timeout.
func ExampleOptions_policies() {
	h, closeAll := open(exthost.Options{
		Policies: []governance.Member{{
			Spec: governance.Spec{
				Name:     "fridays",
				Category: governance.Authorization,
				Flows:    []governance.Flow{governance.Request}, // it has no opinion about results
				Match:    governance.Match{Methods: []string{protocol.MethodToolsCall}},
			},
			Policy: freeze{"_build"},
		}},
	})
	defer closeAll()

	_, err := h.Call(context.Background(), "ext_builder_build", nil)
	if fault, ok := errors.AsType[*protocol.Error](err); ok {
		fmt.Println(fault.Kind, "-", fault.Message)
	}
	// Output:
	// rejected - policy fridays: no builds on Fridays
}

// The progress of a call.
func ExampleHost_CallWith() {
	h, closeAll := open(exthost.Options{})
	defer closeAll()

	result, err := h.CallWith(context.Background(), "ext_builder_build", nil, exthost.CallOptions{
		Progress: func(p protocol.Progress) { fmt.Printf("%g of %g: %s\n", p.Done, p.Total, p.Message) },
	})
	fmt.Println(result.Text(), err)
	// Output:
	// 1 of 2: compile
	// 2 of 2: link
	// built <nil>
}

// The end of ctx cancels a call. Its Outcome says that the tool may have done something before.
func ExampleHost_CallWith_cancel() {
	h, closeAll := open(exthost.Options{})
	defer closeAll()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := h.CallWith(ctx, "ext_builder_watch", nil, exthost.CallOptions{
		Progress: func(protocol.Progress) { cancel() }, // in a program: a person has seen enough
	})
	if fault, ok := errors.AsType[*protocol.Error](err); ok {
		fmt.Println(fault.Kind, fault.Outcome)
	}
	// Output:
	// canceled unknown
}
