package vendortest

import (
	"embed"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Vendors are the APIs by the prefix of their environment variables.
var Vendors = map[string]func(testing.TB, ...Turn) *Vendor{"ANTHROPIC": Anthropic, "OPENAI": OpenAI}

//go:embed project
var project embed.FS

// Project returns a new directory for a loop. Its extension kit has tools that fail, that
// wait for each other, that a policy denies and that a hook denies.
func Project(t testing.TB) (dir string) {
	t.Helper()
	files, err := fs.Sub(project, "project")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo",
		filepath.Join(dir, "extensions", "kit", "rendezvous")).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: mkfifo: %v %s", err, out)
	}
	return dir
}

// failures are calls and the expected text for the model; "! " marks an error.
var failures = []struct{ tool, arguments, want string }{
	{"ext_kit_left", `{}`, "met"}, // ends only if the next call runs in parallel
	{"ext_kit_right", `{}`, "I am the left one"},
	{"ext_kit_say", `{"text":"12345678901234567890 é"}`, "12345678901234567890 é"},
	{"ext_kit_say", `{"txt":"x"}`, `! - /txt: expected no such property, got string "x"; did you mean text?`},
	{"ext_kit_sya", `{}`, `! there is no tool "ext_kit_sya", did you mean "ext_kit_say"?`},
	{"ext_kit_burn", `{}`, "! the kitchen is on fire"},
	{"ext_kit_delete", `{}`, "! policy who-may-what: nothing is deleted"},
	{"ext_kit_add", `{"a":13,"b":1}`, "! thirteen brings bad luck"},
}

// Failures runs a loop through failing tools and a busy vendor, and checks the texts that
// its model gets. do runs the loop in a [Project] with url as the vendor's base URL.
func Failures(t *testing.T, serve func(testing.TB, ...Turn) *Vendor,
	do func(url string) (answer, log string, err error),
) *Vendor {
	t.Helper()
	all := Turn{Text: "Let me see."}
	for _, m := range failures {
		all.Calls = append(all.Calls, Call{m.tool, m.arguments})
	}
	scarce := Turn{Status: 529, Calls: []Call{{"ext_kit_scarce", `{}`}}}
	v := serve(t, all, scarce, scarce, Turn{Text: "¡Hecho! ✓"})
	answer, log, err := do(v.URL)
	if err != nil || answer != "¡Hecho! ✓\n" {
		t.Fatalf("%q, %v\n%s", answer, err, log)
	}
	for i, r := range v.Results(0) {
		want, failed := strings.CutPrefix(failures[i].want, "! ")
		if !strings.Contains(r.Text, want) || failed != (r.Failed || strings.HasPrefix(r.Text, "error: ")) {
			t.Errorf("%s %s: %+v", failures[i].tool, failures[i].arguments, r)
		}
	}
	if r := v.Results(1); strings.TrimSpace(r[0].Text) != "here you are" {
		t.Errorf("the first time: %+v", r)
	}
	if r := v.Results(2); !strings.Contains(r[0].Text, "policy once: ") ||
		!strings.Contains(r[0].Text, "try again in ") {
		t.Errorf("the second time: %+v", r)
	}
	if want := "the model's API is busy (529 "; strings.Count(log, want) != 2 {
		t.Errorf("the log does not say %q twice:\n%s", want, log)
	}
	return v
}

// Scripted tests a loop's scripted model with a task that has quoted separators, parallel
// calls, a part that no tool can do, and a failure. do runs the task in a [Project].
func Scripted(t *testing.T, do func(task string) (answer, log string, err error)) {
	t.Helper()
	answer, log, err := do(`say "hello; then and world" and add 2 to 40 and fly to the moon; then burn it`)
	if err != nil || !strings.Contains(log, "a scripted model stands in") {
		t.Fatalf("%v\n%s", err, log)
	}
	want := `no tool that I am offered does "fly to the moon"
ext_kit_say says: hello; then and world
ext_kit_add says: 42
ext_kit_burn fails: `
	if !strings.HasPrefix(answer, want) || !strings.Contains(answer, "the kitchen is on fire") {
		t.Errorf("%s\nnot\n%s", answer, want)
	}
	log = strings.NewReplacer(`": `, `":`, `, "`, `,"`).Replace(log) // Python writes JSON with blanks
	for _, want := range []string{`→ ext_kit_add {"a":2,"b":40}`, "← ext_kit_add 42", "✗ ext_kit_burn"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}
