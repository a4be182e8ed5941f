package storm

import (
	"testing"

	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) { hosttest.Main(m, verbs) }

// verbs are the steps of scripted children.
var verbs = map[string]processtest.Verb{
	"sdk":   func(string) { processtest.Exit(hosttest.Extension().Main()) },
	"guard": func(string) { processtest.Exit(hosttest.Guard().Main()) },
}
