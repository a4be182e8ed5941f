package main

import (
	"strings"
	"testing"
)

// The init of a pid namespace begins before the packages are initialised that a host needs and an init
// does not: it would otherwise take five times as long to start its child.
func TestInitBeginsEarly(t *testing.T) {
	cmd := program(t.TempDir(), "version")
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(trace.String(), "init github.com/exthost/exthost/internal/nsinit ")
	if !found {
		t.Fatalf("it has no init function:\n%s", &trace)
	}
	for _, late := range []string{"regexp", "net", "crypto/rand", "log/slog", "google.golang.org/protobuf/proto", "github.com/santhosh-tekuri/jsonschema/v6", "github.com/exthost/exthost/manifest"} {
		if strings.Contains(before, "init "+late+" ") {
			t.Errorf("%s is initialised before it", late)
		}
		if !strings.Contains(trace.String(), "init "+late+" ") {
			t.Errorf("%s is not initialised at all", late)
		}
	}
}
