package clientconfig

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/exthost/exthost/manifest"
)

var update = flag.Bool("update", false, "write the golden parts of testdata")

// TestFiles reads the first file of each archive and compares the output with the others.
func TestFiles(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) < 5 {
		t.Fatalf("%v, %v", archives, err)
	}
	for _, name := range archives {
		t.Run(filepath.Base(name), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file := a.Files[0]
			o := Options{Home: "/ada"}
			if strings.HasPrefix(filepath.Base(name), "stored") { // one name is taken
				o.Store = func(name, value string) bool { return name != "taken_token" && value != "" }
			}
			r, err := Read("/ada/"+file.Name, file.Data, o)
			if err != nil {
				t.Fatal(err)
			}
			got := []txtar.File{file, {Name: "notes", Data: notes(r)}}
			for _, f := range r.Config {
				got = append(got, txtar.File{Name: "config/" + f.Path, Data: f.Data})
			}
			for _, f := range r.Extensions() {
				got = append(got, txtar.File{Name: f.Path, Data: f.Data})
				parses(t, f)
			}
			bridged, err := Read("/ada/"+file.Name, file.Data, Options{Home: "/ada", Bridge: true})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, txtar.File{Name: "destinations.yaml", Data: bridged.Destinations()})
			out := txtar.Format(&txtar.Archive{Comment: a.Comment, Files: got})
			if *update {
				if err := os.WriteFile(name, out, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(a)), string(out)); diff != "" {
				t.Error(diff)
			}
			for _, f := range got[1:] {
				if strings.Contains(string(f.Data), "s3cret") {
					t.Errorf("%s shows a secret:\n%s", f.Name, f.Data)
				}
			}
		})
	}
}

func notes(r *Result) []byte {
	lines := []string{string(r.Client)}
	for _, n := range r.Notes {
		dropped := ""
		if n.Dropped {
			dropped = "left out: "
		}
		lines = append(lines, n.Server+": "+dropped+n.Message)
	}
	for _, s := range r.Servers {
		if len(s.Secrets) > 0 {
			lines = append(lines, s.Name+" has the secrets "+strings.Join(slices.Sorted(maps.Keys(s.Secrets)), ", "))
		}
	}
	if ids := r.Disabled(); len(ids) > 0 {
		lines = append(lines, "disabled: "+strings.Join(ids, ", "))
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// parses decodes an output file with its real reader.
func parses(t *testing.T, f File) {
	t.Helper()
	if m, diags := manifest.Parse(f.Path, f.Data); m == nil {
		t.Errorf("%s: %v\n%s", f.Path, diags, f.Data)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	for name, tt := range map[string]struct{ path, data, want string }{
		"broken JSON":  {".mcp.json", `{"mcpServers": {`, "line"},
		"broken TOML":  {"config.toml", "[mcp_servers", "expected"},
		"no servers":   {".mcp.json", `{"other": 1}`, `no "mcpServers"`},
		"none of code": {".vscode/mcp.json", `{"inputs": []}`, `no "servers"`},
		"none of toml": {"config.toml", `model = "x"`, "[mcp_servers.NAME]"},
		"too large":    {".mcp.json", strings.Repeat(" ", maxFile+1), "MiB"},
	} {
		if r, err := Read(tt.path, []byte(tt.data), Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestSecretsStayWhenAskedFor(t *testing.T) {
	const file = `{"mcpServers":{"a":{"command":"x","env":{"API_KEY":"s3cret-1"}}}}`
	r, err := Read(".mcp.json", []byte(file), Options{Secrets: true})
	if err != nil || r.Servers[0].Env["API_KEY"] != "s3cret-1" || len(r.Servers[0].Variables) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestOwnServer drops servers that run this program.
func TestOwnServer(t *testing.T) {
	const file = `{"mcpServers":{"a":{"command":"x"},"exthost":{"command":"/usr/local/bin/exthost","args":["serve","--stdio","--dir","/home/ada/shop"]}}}`
	r, err := Read(".mcp.json", []byte(file), Options{})
	if err != nil || len(r.Servers) != 1 || len(r.Notes) != 1 || !r.Notes[0].Dropped || r.Notes[0].Server != "exthost" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestByteOrderMark(t *testing.T) {
	for path, file := range map[string]string{
		".mcp.json":   `{"mcpServers":{"a":{"command":"x"}}}`,
		"config.toml": "[mcp_servers.a]\ncommand = \"x\"",
	} {
		if r, err := Read(path, []byte("\ufeff"+file), Options{}); err != nil || len(r.Servers) != 1 {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
}

// TestProposedAnswers imports VS Code's default answers, except where they would be references here.
func TestProposedAnswers(t *testing.T) {
	for value, want := range map[string]string{
		"eu-1":             "eu-1",
		"$HOME":            "$HOME",
		"${PRIVATE}":       "${REGION}",
		"x${env:PRIVATE}":  "${REGION}",
		"secret://private": "${REGION}",
		"a\x00b":           "${REGION}",
	} {
		proposed, _ := json.Marshal(value)
		r, err := Read("mcp.json",
			[]byte(`{"servers":{"a":{"command":"x","args":["${input:region}"],"env":{"R":"${input:region}"}}},"inputs":[{"id":"region","type":"promptString","default":`+string(proposed)+`}]}`), Options{
				From: VSCode,
			})
		if err != nil || len(r.Servers) != 1 {
			t.Fatalf("%q: %+v, %v", value, r, err)
		}
		if s := r.Servers[0]; s.Args[0] != want || s.Env["R"] != want && want == value ||
			strings.Contains(fmt.Sprint(s), "PRIVATE") || strings.Contains(fmt.Sprint(s), "private") {
			t.Errorf("%q became %+v", value, s)
		}
	}
}

// TestLastComment reads a file that ends in a comment without a line break.
func TestLastComment(t *testing.T) {
	if r, err := Read("mcp.json", []byte(`{"servers":{"a":{"command":"x"}}} // mine`), Options{}); err != nil ||
		len(r.Servers) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSecretsOfOneName: two servers' different secrets with one name get different variables.
func TestSecretsOfOneName(t *testing.T) {
	const file = `{"mcpServers":{"a":{"command":"x","env":{"API_KEY":"s3cret-1"}},"b":{"command":"x","env":{"API_KEY":"s3cret-2"}},"c":{"command":"x","env":{"API_KEY":"s3cret-1"}}}}`
	r, err := Read(".mcp.json", []byte(file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, s := range r.Servers {
		got = append(got, s.Variables)
	}
	if want := [][]string{
		{"API_KEY"},
		{"B_API_KEY"},
		{"API_KEY"},
	}; !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("the variables are %v, want %v", got, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(".mcp.json", []byte(`{"mcpServers":{"a":{"command":"x y","args":["--token","${env:X}"]}}}`))
	f.Add(".mcp.json", []byte(`{"mcpServers":{"a":{"command":" "}}}`)) // not a command
	f.Add("config.toml", []byte("[mcp_servers.a]\ncommand=\"x\"\nenv={K=\"v\"}"))
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		if len(data) > 4<<10 { // the TOML parser itself is not fuzzed
			t.Skip()
		}
		r, err := Read(path, data, Options{Home: "/h", Workspace: "/w"})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range r.Servers {
			if err := manifest.ValidateID(s.ID); err != nil || seen[s.ID] {
				t.Errorf("id %q: %v", s.ID, err)
			}
			seen[s.ID] = true
		}
		for _, file := range r.Extensions() {
			if m, diags := manifest.Parse(file.Path, file.Data); strings.HasSuffix(file.Path, manifest.FileName) &&
				m == nil {
				for _, d := range diags {
					if strings.Contains(d.Message, "syntax") {
						t.Errorf("%s: %v\n%s", file.Path, diags, file.Data)
					}
				}
			}
		}
	})
}

// A README's words in place of a value are named and become variables; words that look like them stay.
func TestPlaceholders(t *testing.T) {
	for value, is := range map[string]bool{
		"YOUR_API_KEY_HERE": true, "your-token": true, "<TOKEN>": true, "sk-xxxxxxxx": true, "ghp_...": true,
		"xxxx": true, "REPLACE_ME": true, "change-me": true, "insert your key": true, "Your API key goes here": true,
		"enter_your_key": true, "****": true, "replace-with-your-token": true,
		"s3cret-1": false, "your": false, "Bern": false, "there": false, "yours truly": false, "a<b>": false,
		"where": false, "/srv/here": false, "xxx": false, "changed": false, "true": false,
	} {
		if placeholder.MatchString(value) != is {
			t.Errorf("%q: %v", value, !is)
		}
	}
}

// timeout is in milliseconds, in seconds where Cline or Roo Code wrote the file, and taken as seconds where nobody can
// say who wrote it and less than a second would be left.
func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		path, value string
		from        Client
		want        time.Duration
	}{
		{path: "mcp.json", value: "60000", want: time.Minute},
		{path: "mcp.json", value: "600", want: 10 * time.Minute},
		{path: "mcp.json", value: "600", from: ClaudeCode, want: 600 * time.Millisecond},
		{path: ".gemini/settings.json", value: "600", want: 600 * time.Millisecond},
		{path: ".roo/mcp.json", value: "600", want: 10 * time.Minute},
		{path: "cline_mcp_settings.json", value: "3600", want: time.Hour},
		{path: "mcp.json", value: "3600", from: Cline, want: time.Hour},
	} {
		data := `{"mcpServers":{"a":{"command":"x","timeout":` + tt.value + `}}}`
		r, err := Read(tt.path, []byte(data), Options{From: tt.from})
		if err != nil || len(r.Servers) != 1 || r.Servers[0].CallTimeout != tt.want {
			t.Errorf("%+v: %+v, %v", tt, r, err)
		}
	}
}
