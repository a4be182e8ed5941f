package discovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// valid returns a valid manifest.
func valid(id string) string {
	return "[plugin]\nid = \"" + id +
		"\"\nversion = \"1.0.0\"\n[capabilities]\ntools = [\"x\"]\n[transport]\ncommand = \"./x\"\n"
}

const broken = "[plugin]\nid = 1\nnope = true\n"

// tree writes files below a new directory and changes to that directory.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for path, content := range files {
		write(t, path, content)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Skip(err)
	}
}

func discover(t *testing.T, o Options) *Result {
	t.Helper()
	if o.SearchPaths == nil {
		o.SearchPaths = []string{"ext"}
	}
	r, err := Discover(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ids returns the id and the manifest of every candidate.
func ids(r *Result) (out []string) {
	for _, c := range r.Candidates {
		out = append(out, c.ID+" "+filepath.ToSlash(c.Path))
	}
	return out
}

// codes returns the code of every diagnostic except CodeNotDescended.
func codes(r *Result) (out []string) {
	for _, d := range r.Diagnostics {
		if d.Code != CodeNotDescended {
			out = append(out, fmt.Sprintf("%s %s %s", d.Level, d.Code, filepath.ToSlash(d.Path)))
		}
	}
	return out
}

// expect compares the ids of the candidates and the codes of the diagnostics.
func expect(t *testing.T, r *Result, wantIDs, wantCodes []string) {
	t.Helper()
	if diff := cmp.Diff(wantIDs, ids(r)); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantCodes, codes(r)); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
}

func TestDiscover(t *testing.T) {
	tree(t, map[string]string{
		"ext/zulu/plugin.toml":                valid("zulu"),
		"ext/alpha/plugin.toml":               valid("alpha"),
		"ext/alpha/inner/plugin.toml":         valid("hidden"),
		"ext/broken/plugin.toml":              broken,
		"ext/broken/inner/plugin.toml":        valid("below-broken"),
		"ext/a/b/c/plugin.toml":               valid("at-four"),
		"ext/a/b/d/e/plugin.toml":             valid("at-five"),
		"ext/node_modules/x/plugin.toml":      valid("ignored"),
		"ext/node_modules_not/x/plugin.toml":  valid("not-ignored"),
		"ext/readme/plugin.toml.txt":          "",
		"more/early/plugin.toml":              valid("early"),
		"more/node_modules/early/plugin.toml": valid("ignored-too"),
	})
	r := discover(t, Options{SearchPaths: []string{"./ext", "more/"}})
	expect(t, r,
		[]string{"alpha ext/alpha/plugin.toml", "at-four ext/a/b/c/plugin.toml",
			"not-ignored ext/node_modules_not/x/plugin.toml", "zulu ext/zulu/plugin.toml",
			"early more/early/plugin.toml"},
		[]string{"info max_depth_reached ext/a/b/d/e", "error manifest_invalid ext/broken/plugin.toml",
			"error manifest_invalid ext/broken/plugin.toml", "error manifest_invalid ext/broken/plugin.toml",
			"error manifest_invalid ext/broken/plugin.toml",
			"info nested_extension ext/alpha/inner/plugin.toml",
			"warn nested_extension ext/broken/inner/plugin.toml"})
	wd, _ := os.Getwd()
	if c := r.Candidates[0]; c.Dir != filepath.Join(wd, "ext", "alpha") || c.RootIndex != 0 ||
		r.Candidates[4].RootIndex != 1 {
		t.Errorf("candidate %+v", c)
	}
	if s := r.Stats; s.Manifests != 7 || s.Ignored != 2 || s.TooDeep != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestOptionsReplaceDefaults(t *testing.T) {
	tree(t, map[string]string{
		"ext/node_modules/x/plugin.toml": valid("modules"),
		"ext/skip/x/plugin.toml":         valid("skipped"),
		"ext/top/plugin.toml":            valid("top"),
	})
	r := discover(t, Options{IgnoreDirs: []string{"skip"}})
	expect(t, r, []string{"modules ext/node_modules/x/plugin.toml", "top ext/top/plugin.toml"}, nil)
	r = discover(t, Options{MaxDepth: 2})
	expect(t, r, []string{"top ext/top/plugin.toml"}, []string{"info max_depth_reached ext/skip/x"})
}

func TestASearchPathMayBeAnExtension(t *testing.T) {
	tree(t, map[string]string{
		"node_modules/plugin.toml":   valid("own"),
		"node_modules/x/plugin.toml": valid("inner"),
		"dot/.x/plugin.toml":         valid("dotted"),
	})
	expect(t, discover(t, Options{SearchPaths: []string{"node_modules"}}), []string{"own node_modules/plugin.toml"},
		[]string{"info nested_extension node_modules/x/plugin.toml"})
	t.Chdir("dot")
	r := discover(t, Options{SearchPaths: []string{"."}})
	expect(t, r, []string{"dotted .x/plugin.toml"}, nil)
	if wd, _ := os.Getwd(); r.Candidates[0].Dir != filepath.Join(wd, ".x") {
		t.Errorf("dir %q in %q", r.Candidates[0].Dir, wd)
	}
	t.Chdir("../node_modules")
	r = discover(t, Options{SearchPaths: []string{"."}})
	expect(t, r, []string{"own plugin.toml"}, []string{"info nested_extension x/plugin.toml"})
	if wd, _ := os.Getwd(); r.Candidates[0].Dir != wd {
		t.Errorf("dir %q in %q", r.Candidates[0].Dir, wd)
	}
}

func TestUnusableSearchPathsAreReported(t *testing.T) {
	tree(t, map[string]string{"ext/a/plugin.toml": valid("a"), "ext/shut/b/plugin.toml": valid("b"), "file": ""})
	if err := os.Chmod("ext/shut", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod("ext/shut", 0o755) })
	want := []string{
		"warn search_path_missing missing",
		"warn search_path_unusable file",
		"warn directory_unreadable ext/shut",
	}
	wantIDs := []string{"a ext/a/plugin.toml"}
	if os.Geteuid() == 0 { // root can read all directories
		want, wantIDs = want[:2], append(wantIDs, "b ext/shut/b/plugin.toml")
	}
	expect(t, discover(t, Options{SearchPaths: []string{"missing", "file", "ext"}}), wantIDs, want)
}

func TestLinks(t *testing.T) {
	files := map[string]string{
		"ext/real/plugin.toml": valid("real"),
		"ext/dir/note":         "",
		"ext-evil/plugin.toml": valid("evil"),
		"other/toml":           valid("outside"),
		"ext/kept/own.toml":    valid("kept"),
	}
	links := func(t *testing.T) {
		link(t, "../../ext-evil", "ext/dir/evil")
		link(t, "../../other/toml", "ext/leaves/plugin.toml")
		link(t, "own.toml", "ext/kept/plugin.toml")
		link(t, "..", "ext/dir/up")
		link(t, "../real", "ext/dir/same")
		link(t, "nowhere", "ext/dir/gone")
		link(t, "note", "ext/dir/file")
	}
	t.Run("not followed", func(t *testing.T) {
		tree(t, files)
		links(t)
		expect(t, discover(t, Options{}), []string{"real ext/real/plugin.toml"}, []string{
			"warn link_not_followed ext/dir/evil", "warn link_not_followed ext/dir/same",
			"warn link_not_followed ext/kept/plugin.toml", "warn link_not_followed ext/leaves/plugin.toml"})
		for path, want := range map[string]string{
			"ext/dir/same": "set extensions.follow_links, or move it here",
			"ext/dir/evil": "add its directory to extensions.search_paths",
		} {
			if !slices.ContainsFunc(discover(t, Options{}).Diagnostics, func(d protocol.Diagnostic) bool {
				return filepath.ToSlash(d.Path) == path && strings.HasSuffix(d.Message, want)
			}) {
				t.Errorf("%s: nothing says %q", path, want)
			}
		}
	})
	t.Run("followed", func(t *testing.T) {
		tree(t, files)
		links(t)
		expect(t, discover(t, Options{FollowLinks: true}),
			[]string{"kept ext/kept/plugin.toml", "real ext/dir/same/plugin.toml"}, []string{
				"error link_escapes ext/dir/evil", "info link_broken ext/dir/gone", "info link_loop ext/dir/up",
				"error link_escapes ext/leaves/plugin.toml", "info same_directory ext/real/plugin.toml"})
	})
	t.Run("crossed", func(t *testing.T) {
		tree(t, map[string]string{"ext/a/x/note": "", "ext/b/plugin.toml": broken})
		link(t, "../b", "ext/a/b")
		link(t, "../a", "ext/b/a")
		r := discover(t, Options{FollowLinks: true, MaxDepth: 1000})
		if len(r.Candidates) > 0 || !slices.Contains(codes(r), "info link_loop ext/a/b/a") {
			t.Errorf("got %v", codes(r))
		}
	})
	t.Run("sidecar leaves", func(t *testing.T) {
		tree(t, map[string]string{
			"ext/a/plugin.toml": valid("a"),
			"secret.json":       `{"servers": {"s": {"command": "x"}}}`,
		})
		link(t, "../../secret.json", "ext/a/.mcp.json")
		expect(t, discover(t, Options{FollowLinks: true}), []string{"a ext/a/plugin.toml"},
			[]string{"error link_escapes ext/a/.mcp.json", "error not_regular ext/a/.mcp.json"})
	})
	t.Run("the search path itself", func(t *testing.T) {
		tree(t, map[string]string{"elsewhere/a/plugin.toml": valid("a")})
		link(t, "elsewhere", "ext")
		expect(t, discover(t, Options{}), []string{"a ext/a/plugin.toml"}, nil)
	})
}

func TestDuplicateIDs(t *testing.T) {
	tree(t, map[string]string{
		"one/z/plugin.toml": valid("same"),
		"two/a/plugin.toml": valid("same"),
		"two/b/plugin.toml": valid("twin"),
		"two/c/plugin.toml": valid("twin"),
		"two/d/plugin.toml": valid("other"),
	})
	r := discover(t, Options{SearchPaths: []string{"one", "two"}})
	expect(t, r, []string{"same one/z/plugin.toml", "other two/d/plugin.toml"},
		[]string{
			"warn duplicate_id two/a/plugin.toml",
			"error duplicate_id two/b/plugin.toml",
			"error duplicate_id two/c/plugin.toml",
		})
	if d := r.Diagnostics[len(r.Diagnostics)-3]; !strings.Contains(d.Message,
		filepath.Join("one", "z", "plugin.toml")) {
		t.Errorf("%v does not name the one that is kept", d)
	}
	if d := r.Diagnostics[len(r.Diagnostics)-1]; !strings.Contains(d.Message, filepath.Join("two", "b")) ||
		!strings.Contains(d.Hint, filepath.Join("two", "c")+", two]") {
		t.Errorf("%v does not name the other, or how to choose", d)
	}
	if len(r.Conflicting) != 2 || r.Conflicting[0].Path != filepath.Join("two", "b", "plugin.toml") {
		t.Errorf("conflicting: %v", r.Conflicting)
	}
	chosen := discover(t, Options{SearchPaths: []string{filepath.Join("two", "c"), "two"}})
	if diff := cmp.Diff([]string{"twin two/c/plugin.toml", "other two/d/plugin.toml", "same two/a/plugin.toml"},
		ids(chosen)); diff != "" {
		t.Errorf("the chosen one (-want +got):\n%s", diff)
	}
	if r := discover(t, Options{SearchPaths: []string{"two"}, Disabled: []string{"twin"}}); len(r.Conflicting) > 0 {
		t.Errorf("disabled ones conflict: %v", r.Diagnostics)
	}
}

func TestNestedAcrossSearchPaths(t *testing.T) {
	tree(t, map[string]string{
		"ext/outer/plugin.toml":            valid("outer"),
		"ext/outer/deep/inner/plugin.toml": valid("inner"),
		"ext/outer-not/plugin.toml":        valid("sibling"),
	})
	r := discover(t, Options{SearchPaths: []string{"ext/outer/deep", "ext", "ext/outer-not"}})
	expect(t, r, []string{"outer ext/outer/plugin.toml", "sibling ext/outer-not/plugin.toml"},
		[]string{
			"info same_directory ext/outer-not/plugin.toml",
			"info nested_extension ext/outer/deep/inner/plugin.toml",
		})
}

func TestDisabledAndAllowlist(t *testing.T) {
	tree(t, map[string]string{
		"ext/a/plugin.toml":       valid("a"),
		"ext/a/inner/plugin.toml": valid("inner"),
		"ext/b/plugin.toml":       valid("b"),
		"ext/c/plugin.toml":       valid("c"),
	})
	expect(t, discover(t, Options{Disabled: []string{"a", "ghost"}}),
		[]string{"b ext/b/plugin.toml", "c ext/c/plugin.toml"},
		[]string{
			"info nested_extension ext/a/inner/plugin.toml",
			"info disabled ext/a/plugin.toml",
			"warn unknown_id ",
		})
	expect(t, discover(t, Options{Disabled: []string{"a"}, Allowlist: []string{"a", "b", "ghost"}}),
		[]string{"b ext/b/plugin.toml"},
		[]string{
			"info nested_extension ext/a/inner/plugin.toml",
			"info disabled ext/a/plugin.toml",
			"info not_allowlisted ext/c/plugin.toml",
			"warn unknown_id ",
		})
}

// An unknown id in the settings may be meant for another directory; an id similar to a found one is reported.
func TestMistypedNames(t *testing.T) {
	tree(t, map[string]string{"ext/weather/plugin.toml": valid("weather"), "ext/notes/plugin.toml": valid("notes")})
	r := discover(t, Options{Disabled: []string{"nots", "ghost"}, Configured: []string{"notes", "github", "wether"}})
	var got []string
	for _, d := range r.Diagnostics {
		if d.Code == CodeUnknownID {
			got = append(got, d.Message+"; "+d.Hint)
		}
	}
	want := []string{
		`disabled names "nots", and no extension found has that id; did you mean "notes"?`,
		`disabled names "ghost", and no extension found has that id; `,
		`entries names "wether", and no extension found has that id; did you mean "weather"?`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNothingInsideAnExtensionRuns has manifests inside directories of extensions that do not run themselves: disabled,
// broken, refused as links, or dropped for their id.
func TestNothingInsideAnExtensionRuns(t *testing.T) {
	tree(t, map[string]string{
		"ext/twice/plugin.toml":          valid("twice"),
		"ext/off/plugin.toml":            valid("off"),
		"ext/off/examples/a/plugin.toml": valid("a"),
		"ext/broken/plugin.toml":         broken,
		"ext/broken/x/y/plugin.toml":     valid("b"),
		"ext/linked/c/plugin.toml":       valid("c"),
		"more/twice/plugin.toml":         valid("twice"),
		"more/twice/d/plugin.toml":       valid("d"),
	})
	link(t, "../../manifest", "ext/linked/plugin.toml")
	r := discover(t, Options{SearchPaths: []string{"ext", "more"}, Disabled: []string{"off"}, MaxDepth: 5})
	if got := ids(r); !slices.Equal(got, []string{"twice ext/twice/plugin.toml"}) {
		t.Errorf("candidates %v", got)
	}
	want := map[string]string{
		"d": "info d does not run: it is below twice (more/twice/plugin.toml); move it beside that, if it is an " +
			"extension of its own",
		"a": "info a does not run: it is inside the directory of off (ext/off/plugin.toml), which is disabled",
		"b": "warn b does not run: it is inside the directory of ext/broken/plugin.toml, which cannot be used",
		"c": "warn c does not run: it is inside the directory of ext/linked/plugin.toml, which cannot be used",
	}
	got := map[string]string{}
	for _, d := range r.Diagnostics {
		if d.Code == CodeNested {
			got[d.Extension] = filepath.ToSlash(fmt.Sprint(d.Level, " ", d.Message))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nested (-want +got):\n%s", diff)
	}
}

// An extension in the folder of another one is named, and so is where it is: settings that name it are no mistake in
// spelling. A copy of the outer one is not named, nor is a manifest that cannot be used.
func TestExtensionBelowAnotherIsNamed(t *testing.T) {
	tree(t, map[string]string{
		"ext/bb/plugin.toml":                   valid("bb"),
		"ext/bb/dist/plugin.toml":              valid("bb"),
		"ext/bb/copy/plugin.toml":              valid("cc"),
		"ext/bb/test/plugin.toml":              broken,
		"ext/bb/node_modules/plugin.toml":      valid("module"),
		"ext/bb/nested/plugin.toml":            valid("nested"),
		"ext/bb/package/plugin.json":           pluginJSON("package", ""),
		"ext/cc/plugin.toml":                   valid("cc"),
		"ext/bb/deeper/still/deep/plugin.toml": valid("deep"),
	})
	expect(t, discover(t, Options{Allowlist: []string{"nested", "bb", "cc"}}),
		[]string{"bb ext/bb/plugin.toml", "cc ext/cc/plugin.toml"},
		[]string{
			"info nested_extension ext/bb/nested/plugin.toml", "info nested_extension ext/bb/package/plugin.json",
		})
}

func TestServers(t *testing.T) {
	const head = "[plugin]\nid = \"bundle\"\nversion = \"2.0.0\"\n[requires]\nenv = [\"KEY\"]\n"
	tree(t, map[string]string{
		"ext/bundle/plugin.toml": head,
		"ext/bundle/.mcp.json":   `{"mcpServers": {"My Files": {"command": "npx", "args": ["files"]}, "web": {"url": "https://x/sse"}}, "x": 1}`,
		"ext/a/plugin.toml":      valid("a"),
		"ext/a/.mcp.json":        `{"servers": {"s": {"command": "./s"}}}`,
		"one/keyed/plugin.toml": strings.Replace(head, "bundle", "keyed", 1) +
			"[mcp_servers.s]\ncommand = \"s\"\nrequires_env = [\"TOKEN\"]\n[mcp_servers.t]\ncommand = \"t\"\n",
	})
	keyed := discover(t, Options{SearchPaths: []string{"one"}}).Candidates
	for i, want := range [][]string{{"KEY", "TOKEN"}, {"KEY"}} {
		if got := keyed[i].Manifest.Requires.Env; !slices.Equal(got, want) {
			t.Errorf("%s requires %q", keyed[i].ID, got)
		}
	}
	notes := []string{"info sidecar_note ext/bundle/.mcp.json", "info sidecar_note ext/bundle/.mcp.json"}
	r := discover(t, Options{})
	expect(t, r, []string{
		"a ext/a/plugin.toml",
		"a.s ext/a/plugin.toml",
		"bundle.my_files ext/bundle/plugin.toml",
		"bundle.web ext/bundle/plugin.toml",
	}, notes)
	c := r.Candidates[2]
	if m := c.Manifest; c.Owner != "bundle" || m.Transport.Command != "npx" ||
		m.Transport.Protocol != manifest.ProtocolMCP ||
		m.Plugin.Version != "2.0.0" || !slices.Equal(m.Requires.Env, []string{"KEY"}) {
		t.Errorf("got %+v of %q", m, c.Owner)
	}
	expect(t, discover(t, Options{Disabled: []string{"bundle", "a.s"}}), []string{"a ext/a/plugin.toml"},
		append(notes, "info disabled ext/bundle/plugin.toml", "info disabled ext/a/plugin.toml"))
	expect(t, discover(t, Options{Allowlist: []string{"bundle.web", "a"}}),
		[]string{"a ext/a/plugin.toml", "a.s ext/a/plugin.toml", "bundle.web ext/bundle/plugin.toml"},
		append(notes, "info not_allowlisted ext/bundle/plugin.toml"))
}

func TestFortyBrokenBesideOneGood(t *testing.T) {
	files := map[string]string{"ext/good/plugin.toml": valid("good")}
	for i := range 40 {
		files[fmt.Sprintf("ext/bad%02d/plugin.toml", i)] = broken
	}
	tree(t, files)
	r := discover(t, Options{})
	if diff := cmp.Diff([]string{"good ext/good/plugin.toml"}, ids(r)); diff != "" {
		t.Error(diff)
	}
	perFile := map[string]int{}
	for _, d := range r.Diagnostics {
		if d.Level == protocol.LevelError && d.Line > 0 && d.Column > 0 {
			perFile[d.Path]++
		}
	}
	if len(perFile) != 40 {
		t.Errorf("errors in %d files, want 40", len(perFile))
	}
	for path, n := range perFile {
		if n != 4 { // id, version, nope, transport
			t.Errorf("%s has %d errors, want 4", path, n)
		}
	}
}

func TestDiscoverEndsWithItsContext(t *testing.T) {
	tree(t, map[string]string{"ext/a/plugin.toml": valid("a")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Discover(ctx, Options{SearchPaths: []string{"ext"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A directory that is moved away during the search is there or not; neither is a problem to report.
func TestDirectoryIsMovedAway(t *testing.T) {
	tree(t, map[string]string{
		"ext/a/plugin.toml":    valid("a"),
		"ext/b/in/plugin.toml": valid("b"),
		"ext/c/plugin.json":    pluginJSON("c", ""),
		"ext/c/mcp.json":       servers("s"),
	})
	usual := codes(discover(t, Options{}))
	for range 1000 {
		var mover sync.WaitGroup
		mover.Go(func() {
			for _, name := range []string{"a", "b", "c"} {
				if err := os.Rename("ext/"+name, name); err != nil {
					t.Error(err)
				}
			}
		})
		found := codes(discover(t, Options{}))
		mover.Wait()
		for _, d := range found {
			if !slices.Contains(usual, d) {
				t.Fatalf("diagnostics %v", found)
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			if err := os.Rename(name, "ext/"+name); err != nil {
				t.Fatal(err)
			}
		}
	}
}
