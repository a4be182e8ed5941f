package test

import (
	"os"
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
	"sdk": func(string) { os.Exit(hosttest.Extension().Main()) },
	"mcp": func(string) { hosttest.ServeMCP() },

	"rich":      serveRich,
	"tasks":     serveTasks,
	"shown":     serveShown,
	"answering": serveAnswers,

	"declaring": serveDeclaring,
	"app":       serveApp,
	"promises":  servePromises,

	"locked": func(string) { os.Exit(hosttest.HoldingALock(hosttest.Extension().Main)) },
	"guard":  func(string) { os.Exit(hosttest.Guard().Main()) },

	"refusing":   func(string) { os.Exit(refusingExtension().Main()) },
	"errorguard": func(string) { os.Exit(errorGuard().Main()) },

	"hangsonce": hangsOnce,

	"mute":    func(string) { os.Exit(hosttest.Mute().Main()) },
	"plugged": servePlugged,
	"bare":    serveBare,
	"begun":   func(string) { appendState("begun", "x") },
	"leaky":   func(string) { os.Exit(leakyExtension().Main()) },
	"hooks":   func(string) { os.Exit(hookExtension().Main()) },
	"journal": func(string) { os.Exit(journalExtension().Main()) },

	"floor": benchtest.FloorVerb,
	"bench": func(string) { os.Exit(hosttest.BenchExtension().Main()) },
}
