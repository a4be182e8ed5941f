package hosttest

import (
	"os"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// Main runs the tests of a package, the slow ones first. In a child that a test has started, it runs the child's script
// instead, whose steps may be verbs.
func Main(m *testing.M, verbs map[string]processtest.Verb, slow ...string) {
	if _, scripted := os.LookupEnv(processtest.ScriptVar); scripted {
		processtest.Main(m, verbs)
	}
	os.Exit(processtest.Sharded(m, slow...).Run())
}
