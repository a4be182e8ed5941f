package storm

import (
	"os"
	"testing"

	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) { hosttest.Main(m, verbs) }

// verbs are the steps of scripted children.
var verbs = map[string]processtest.Verb{
	"sdk":   func(string) { os.Exit(hosttest.Extension().Main()) },
	"guard": func(string) { os.Exit(hosttest.Guard().Main()) },
}
