package main

import (
	"strings"
	"testing"
)

// The init of a pid namespace and the guardian begin before the packages that only a host needs are initialised.
// Otherwise an init would take five times as long to start its child, and both would use three times the memory.
func TestHelpersBeginEarly(t *testing.T) {
	cmd := program(t.TempDir(), "--version")
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(trace.String(), "init github.com/exthost/exthost/internal/proc/containment/helper ")
	if !found {
		t.Fatalf("package helper has no init function:\n%s", &trace)
	}
	for _, late := range []string{
		"regexp",
		"net",
		"crypto/rand",
		"log/slog",
		"google.golang.org/protobuf/proto",
		"github.com/santhosh-tekuri/jsonschema/v6",
		"cel.dev/cel-go/checker",
		"github.com/exthost/exthost/manifest",
	} {
		if strings.Contains(before, "init "+late+" ") {
			t.Errorf("%s is initialised before the helpers", late)
		}
		if !strings.Contains(trace.String(), "init "+late+" ") {
			t.Errorf("%s is not initialised at all", late)
		}
	}
}
