package test

import (
	"testing"

	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) {
	hosttest.Main(m, verbs, "TestHungExtensionIsReplaced", "TestSlowCallIsNamed", "TestTenThousandCallsAreReplayed")
}

// verbs are the steps of scripted children.
var verbs = map[string]processtest.Verb{
	"sdk": func(string) { processtest.Exit(hosttest.Extension().Main()) },
	"mcp": func(string) { hosttest.ServeMCP() },

	"rich":      serveRich,
	"tasks":     serveTasks,
	"shown":     serveShown,
	"answering": serveAnswers,

	"declaring": serveDeclaring,
	"app":       serveApp,
	"promises":  servePromises,

	"locked": func(string) { processtest.Exit(hosttest.HoldingALock(hosttest.Extension().Main)) },
	"guard":  func(string) { processtest.Exit(hosttest.Guard().Main()) },

	"refusing":   func(string) { processtest.Exit(refusingExtension().Main()) },
	"errorguard": func(string) { processtest.Exit(errorGuard().Main()) },

	"hangsonce": hangsOnce,

	"mute":    func(string) { processtest.Exit(hosttest.Mute().Main()) },
	"plugged": servePlugged,
	"bare":    serveBare,
	"begun":   func(string) { appendState("begun", "x") },
	"leaky":   func(string) { processtest.Exit(leakyExtension().Main()) },
	"hooks":   func(string) { processtest.Exit(hookExtension().Main()) },
	"journal": func(string) { processtest.Exit(journalExtension().Main()) },

	"floor": benchtest.FloorVerb,
	"bench": func(string) { processtest.Exit(hosttest.BenchExtension().Main()) },
}
