//go:build linux

package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// A program that is not exthost has no guardian, and reports that.
func TestContainmentOfAnEmbeddingProgram(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("kit", hosttest.Child("sdk", ""))
	for _, self := range []string{"", "/bin/true"} {
		h := f.Open(exthost.Options{Self: self})
		c := h.Status().Containment
		if c.String() != "process group + cookie sweep" || len(c.Lacks) != 1 ||
			!strings.HasPrefix(c.Lacks[0], "guardian: ") {
			t.Errorf("Self %q: %+v", self, c)
		}
	}
}

func TestLimitsOfTheManifestHold(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("limits", `[transport]
kind = "exec"
[runtime.limits]
open_files = 64
[[tools]]
name = "show"
command = ["sh", "-c", "ulimit -n"]
`)
	f.Add("kit", hosttest.Child("sdk",
		"[runtime.limits]\nopen_files = 64\nmemory = \"8GiB\"\ncpu_time = \"1h\"\nfile_size = \"1MiB\"\n"))
	h := f.Open(exthost.Options{})
	result, err := h.Call(t.Context(), "ext_limits_show", nil)
	if err != nil || !strings.Contains(string(result), "64") {
		t.Errorf("open files: %s, %v", result, err)
	}
	if s := hosttest.StatusOf(t, h, "kit"); s.State != "ready" {
		t.Errorf("kit: %+v", s)
	}
	if slices.ContainsFunc(h.Status().Diagnostics,
		func(d protocol.Diagnostic) bool { return strings.Contains(d.Message, "[runtime.limits]") }) {
		t.Errorf("limits are said to be without effect: %v", h.Status().Diagnostics)
	}
}
