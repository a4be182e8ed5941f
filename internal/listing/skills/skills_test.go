package skills

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folder is the folder of an extension.
type folder struct {
	*testing.T
	dir string
}

func newFolder(t *testing.T) folder { return folder{t, t.TempDir()} }

// write writes a file below skills.
func (f folder) write(name, text string) {
	f.Helper()
	path := filepath.Join(f.dir, Folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.Fatal(err)
	}
}

// main returns a SKILL.md with these fields.
func main(fields ...string) string { return "---\n" + strings.Join(fields, "\n") + "\n---\n# Body\n" }

// plain returns a valid SKILL.md.
func plain(name string) string { return main("name: "+name, "description: Does a thing.") }

// read reads the only skill, which must be valid or give a reason with this text, in this section.
func (f folder) only(want, section string) *Skill {
	f.Helper()
	s := Read(f.dir)
	if s.Err != nil || len(s.Reports) != 1 {
		f.Fatalf("%v, reports %+v", s.Err, s.Reports)
	}
	r := s.Reports[0]
	if r.Valid != (want == "") || !strings.Contains(r.Reason, want) || r.Valid != (len(s.Skills) == 1) ||
		section != "" && r.Section != section {
		f.Errorf("report %+v, want %q of %q", r, want, section)
	}
	if len(s.Skills) == 0 {
		return nil
	}
	return s.Skills[0]
}

// TestFrontmatter reads one SKILL.md at a time, each right or wrong in one point of the specification.
func TestFrontmatter(t *testing.T) {
	const one = "name: one\ndescription: d"
	const more = "license: MIT\ncompatibility: any\nmetadata: {a: b}\nallowed-tools: Read Bash(git:*)"
	const twice = "SKILL.md:4: \"name\" is already defined"
	long := strings.Repeat("é", 1024)
	aliases := "a: &a " + strings.Repeat("x", 4096) + "\nb: [" + strings.Repeat("*a, ", 4096) + "]"
	var bomb strings.Builder
	bomb.WriteString("name: one\ndescription: d\nmetadata:\n  a0: &a0 x\n")
	for n := 1; n < 30; n++ {
		fmt.Fprintf(&bomb, "  a%d: &a%d [%s]\n", n, n, strings.Repeat(fmt.Sprintf("*a%d,", n-1), 10))
	}
	for name, c := range map[string]struct{ text, want, section string }{
		"minimal":             {plain("one"), "", ""},
		"all fields":          {main(one, more), "", ""},
		"CRLF":                {strings.ReplaceAll(plain("one"), "\n", "\r\n"), "", ""},
		"no body":             {"---\nname: one\ndescription: d\n---", "", ""},
		"longest description": {main("name: one", "description: "+long), "", ""},
		"number as text":      {main(one, `metadata: {version: "1.0"}`), "", ""},
		"number":              {main(one, "metadata: {version: 1.0}"), "metadata.version is a number: write", ""},
		"boolean":             {main("name: one", "description: true"), "SKILL.md:3: description is a boolean", ""},
		"nothing":             {main(one, "license:"), "SKILL.md:4: license is nothing, not a text", ""},
		"no frontmatter":      {"# one\n", "does not begin with frontmatter", sectionFormat},
		"byte order mark":     {"\ufeff" + plain("one"), "byte order mark", sectionFormat},
		"no end":              {"---\nname: one\ndescription: d\n", "no end", sectionFormat},
		"no YAML":             {main("name: one", "description: 'x"), "SKILL.md:", sectionFormat},
		"no map":              {main("- name"), "no map", sectionFormat},
		"a key twice":         {main(one, "name: one"), twice, sectionFormat},
		"a tag":               {main("name: one", "description: !!python/object d"), "SKILL.md:3: tag", sectionFormat},
		"not UTF-8":           {plain("one") + "\xff", "not UTF-8", sectionFormat},
		"bomb":                {"---\n" + bomb.String() + "---\n", "aliases counted", sectionFormat},
		"long frontmatter":    {main(one, "# "+strings.Repeat("x", maxFrontmatter)), "64 KiB", sectionFormat},
		"no name":             {main("description: d"), "no name", section("name")},
		"no description":      {main("name: one"), "no description", section("description")},
		"empty description":   {main("name: one", "description: ' '"), "SKILL.md:3: description is empty", ""},
		"long description":    {main("name: one", "description: "+long+"é"), "more than 1024", section("description")},
		"another name":        {plain("two"), "not that of the folder, one", section("name")},
		"upper case":          {plain("One"), "lower-case", section("name")},
		"two hyphens":         {plain("o--ne"), "lower-case", ""},
		"hyphen at the end":   {plain("one-"), "lower-case", ""},
		"long name":           {plain(strings.Repeat("x", 65)), "more than 64", ""},
		"unknown field":       {main(one, "origin: ECC\nlist: [1, {a: [b]}]"), "", ""},
		"misspelt field":      {main("name: one", "descripton: d"), "it has descripton, which may be", ""},
		"many aliases":        {main(one, aliases), "its aliases replaced, has more than 128 KiB", sectionFormat},
		"a list of tools":     {main(one, "allowed-tools: [Read]"), "allowed-tools is a list, not a text", ""},
		"empty compatibility": {main(one, "compatibility: ''"), "1 to 500", ""},
		"nested metadata":     {main(one, "metadata: {a: {b: c}}"), "metadata.a is a map, not a text", ""},
		"metadata as text":    {main(one, "metadata: x"), "no map", ""},
		"huge":                {plain("one") + strings.Repeat("x", maxMain), "more than 1048576 bytes", sectionLimits},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.write("one/SKILL.md", c.text)
			f.only(c.want, c.section)
		})
	}
}

// TestFrontmatterIsVerbatim renders the frontmatter in the author's order and as it was written.
func TestFrontmatterIsVerbatim(t *testing.T) {
	f := newFolder(t)
	f.write("one/SKILL.md", main(`metadata: {version: "1.0", when: 2026-01-02, empty: ""}`, "name: one",
		"description: >-", "  two", `  "lines" é`))
	k := f.only("", "")
	const want = `{"metadata":{"version":"1.0","when":"2026-01-02","empty":""},"name":"one",` +
		`"description":"two \"lines\" é"}`
	if string(k.Frontmatter) != want {
		t.Errorf("%s\nwant %s", k.Frontmatter, want)
	}
}

// TestUnknownFields serves a skill with fields that the specification does not know, whatever their values are, and
// names them.
func TestUnknownFields(t *testing.T) {
	f := newFolder(t)
	f.write("one/SKILL.md", main("name: one", "description: d", "version: 1.10", "user-invocable: true", "model:",
		"count: 0x10", "many: 123456789012345678901", "far: .inf", "compatiblity: x", "tools: [Read, {a: [1]}]",
		"nothing: {}"))
	k := f.only("", "")
	const want = `{"name":"one","description":"d","version":1.10,"user-invocable":true,"model":null,"count":16,` +
		`"many":123456789012345678901,"far":".inf","compatiblity":"x","tools":["Read",{"a":[1]}],"nothing":{}}`
	if string(k.Frontmatter) != want || !json.Valid(k.Frontmatter) {
		t.Errorf("%s\nwant %s", k.Frontmatter, want)
	}
	const said = "Agent Skills has no field version, user-invocable, model, count, many, far, " +
		"compatiblity (did you mean compatibility?), tools, 1 more; clients are told of it as it is"
	if got := Read(f.dir).Reports[0].Unknown; got != said {
		t.Errorf("%s\nwant %s", got, said)
	}
}

// TestFiles checks digests, sizes, types and the order of a skill's files, and that their content is given as long as
// it is what it was.
func TestFiles(t *testing.T) {
	f := newFolder(t)
	f.write("one/SKILL.md", plain("one"))
	f.write("one/scripts/run me#1.sh", "#!/bin/sh\necho no\n")
	f.write("one/assets/logo.png", "\x89PNG\r\n\x1a\n\x00")
	f.write("one/inner/SKILL.md", "not a skill of its own")
	f.write("one/.git/config", "[core]")
	f.write("one/__pycache__/x.pyc", "x")
	f.write("notes.md", "no skill")
	f.write("empty/notes.md", "no skill either")
	set := Read(f.dir)
	if len(set.Reports) != 1 {
		t.Fatalf("%+v", set.Reports)
	}
	s := Serve("kit", set)
	e := s.Entries()[0]
	var got struct {
		URI       string
		Resources []struct {
			URI, Digest string
			Size        int
		}
	}
	if err := json.Unmarshal(e.Raw, &got); err != nil {
		t.Fatal(err)
	}
	var uris []string
	for _, r := range got.Resources {
		uris = append(uris, r.URI)
		of, path := s.Find(r.URI)
		if of == nil || of.Name != "one" {
			t.Fatalf("%s is found in %v", r.URI, of)
		}
		result, err := s.Read(of, of.File(path))
		if err != nil {
			t.Fatal(err)
		}
		var read struct {
			Contents []struct{ URI, MIMEType, Text, Blob string }
		}
		if err := json.Unmarshal(result, &read); err != nil {
			t.Fatal(err)
		}
		data := []byte(read.Contents[0].Text)
		if read.Contents[0].Blob != "" {
			data, _ = base64.StdEncoding.DecodeString(read.Contents[0].Blob)
		}
		if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) != r.Digest || len(data) != r.Size ||
			read.Contents[0].URI != r.URI {
			t.Errorf("%s: %d bytes, digest of %x", r.URI, len(data), sum)
		}
	}
	if diff := cmp.Diff([]string{"skill://kit/one/SKILL.md", "skill://kit/one/assets/logo.png",
		"skill://kit/one/inner/SKILL.md", "skill://kit/one/scripts/run%20me%231.sh"}, uris); diff != "" {
		t.Error(diff)
	}
	if got := e.File("assets/logo.png").MIME; got != "image/png" {
		t.Errorf("the type of a picture is %s", got)
	}
	f.write("one/scripts/run me#1.sh", "#!/bin/sh\necho yes\n")
	_, err := s.Read(&e, e.File("scripts/run me#1.sh"))
	if err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("a changed file: %v", err)
	}
	again := Reread(f.dir, set)
	now := again.Find("one").File("scripts/run me#1.sh").Digest
	if now != Digest([]byte("#!/bin/sh\necho yes\n")) || now == e.File("scripts/run me#1.sh").Digest {
		t.Errorf("read again, the file has the digest %s", now)
	}
	if diff := cmp.Diff(string(e.Frontmatter), string(again.Find("one").Frontmatter)); diff != "" {
		t.Error(diff)
	}
}

// TestDirectories lists one level at a time, and finds nothing outside of a skill.
func TestDirectories(t *testing.T) {
	f := newFolder(t)
	f.write("one/SKILL.md", plain("one"))
	f.write("one/a/b/c.md", "c")
	f.write("one/a/d.md", "d")
	s := Serve("kit", Read(f.dir))
	for uri, want := range map[string]string{
		"skill://kit/one":          "SKILL.md a",
		"skill://kit/one/a":        "b d.md",
		"skill://kit/one/%61":      "b d.md",
		"skill://kit/one/a/":       "-",
		"skill://kit/one/a/../a":   "-",
		"skill://kit/one/%2e%2e":   "-",
		"skill://kit/one/a%2fb":    "-",
		"skill://kit/one/SKILL.md": "none",
		"skill://kit/one/a/e":      "none",
		"skill://kit":              "-",
		"skill://other/one":        "-",
		"skill://kit/two":          "-",
	} {
		e, dir := s.Find(uri)
		got := "-"
		if e != nil {
			list, ok := s.Children(e, dir)
			if got = "none"; ok {
				var names []string
				for _, item := range list {
					var child struct{ Name string }
					_ = json.Unmarshal(item, &child)
					if child.Name == "one" { // SKILL.md is named after the skill
						child.Name = "SKILL.md"
					}
					names = append(names, child.Name)
				}
				got = strings.Join(names, " ")
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
}

// TestLinks follows links within the extension's folder and no others.
func TestLinks(t *testing.T) {
	f := newFolder(t)
	outside := filepath.Join(t.TempDir(), "secret.md")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(f.dir, Folder, name)); err != nil {
			t.Skip("NOT TESTED: links cannot be made: ", err)
		}
	}
	f.write("one/SKILL.md", plain("one"))
	f.write("../shared/more.md", "shared")
	f.write("two/notes.md", "two")
	link("../../shared/more.md", "one/inside.md")
	link(outside, "one/outside.md")
	link("nothing", "one/broken.md")
	link(outside, "two/SKILL.md")
	link(filepath.Dir(outside), "three")
	link("one", "four")
	s := Read(f.dir)
	var got []string
	for _, r := range s.Reports {
		got = append(got, fmt.Sprintf("%s %v %s %s", r.Name, r.Valid, r.Section, r.Note))
	}
	if diff := cmp.Diff([]string{
		"four false Agent Skills: name field ",
		"one true  left out, because it leads out of the extension's folder or is no file: broken.md, outside.md",
		"three false " + sectionContains + " ",
		"two false " + sectionContains + " ",
	}, got); diff != "" {
		t.Error(diff)
	}
	if one := s.Find("one"); one == nil || one.File("inside.md") == nil || one.File("outside.md") != nil {
		t.Errorf("one is %+v", one)
	}
}

// TestLimits refuses what exceeds a limit and names it; other skills stay.
func TestLimits(t *testing.T) {
	t.Run("files", func(t *testing.T) {
		f := newFolder(t)
		f.write("one/SKILL.md", plain("one"))
		for n := range maxFiles - 1 {
			f.write(fmt.Sprintf("one/f%d", n), "x")
		}
		f.only("", "")
		f.write("one/more", "x")
		f.only("more than 512 files", sectionLimits)
	})
	t.Run("bytes", func(t *testing.T) {
		f := newFolder(t)
		f.write("one/SKILL.md", plain("one"))
		f.write("one/big", "")
		big := filepath.Join(f.dir, Folder, "one", "big")
		if err := os.Truncate(big, maxBytes-int64(len(plain("one")))); err != nil {
			t.Fatal(err)
		}
		f.only("", "")
		if err := os.Truncate(big, 1<<40); err != nil {
			t.Skip("NOT TESTED: no sparse file of 1 TiB: ", err)
		}
		f.only("more than 16 MiB together, with big", sectionLimits)
	})
	t.Run("bytes of all", func(t *testing.T) {
		f := newFolder(t)
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			f.write(name+"/SKILL.md", plain(name))
			for _, big := range []string{"one", "two"} { // whichever is read first counts, the other one is too much
				f.write(name+"/"+big, "")
				if err := os.Truncate(filepath.Join(f.dir, Folder, name, big), 12<<20); err != nil {
					t.Fatal(err)
				}
			}
		}
		f.write("g/SKILL.md", plain("g"))
		s := Read(f.dir)
		if last := s.Reports[6]; last.Name != "g" || !strings.Contains(last.Reason, "together have more than 64 MiB") {
			t.Errorf("%+v", last)
		}
	})
	t.Run("of all", func(t *testing.T) {
		f := newFolder(t)
		f.write("a/SKILL.md", main("name: a", "description: d", "x: "+strings.Repeat("x", 100)))
		f.write("a/d/e", "x")
		f.write("b/SKILL.md", plain("b"))
		in, err := os.OpenRoot(f.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		for want, l := range map[string]left{
			"":                                {2, 1000, 3, 300},
			"more than 4096 files":            {1, 1000, 3, 300},
			"more than 64 MiB":                {2, 100, 3, 300},
			"more than 16384 files and direc": {2, 1000, 2, 300},
			"more than 2 MiB of frontmatter":  {2, 1000, 3, 100},
		} {
			r := reader{root: in, left: l}
			for _, name := range []string{"a", "b"} { // nothing more is read once a limit is exceeded
				_, _, err := r.skill(name)
				if name == "a" && want == "" && err == nil {
					break
				}
				if want == "" || err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s with %+v: %v, want %q", name, l, err, want)
				}
			}
		}
	})
	t.Run("a large SKILL.md", func(t *testing.T) {
		f := newFolder(t)
		f.write("one/SKILL.md", plain("one"))
		if err := os.Truncate(filepath.Join(f.dir, Folder, "one", MainFile), 1<<30); err != nil {
			t.Skip("NOT TESTED: no sparse file of 1 GiB: ", err)
		}
		f.only("SKILL.md: more than 1048576 bytes", sectionLimits)
	})
	t.Run("path", func(t *testing.T) {
		f := newFolder(t)
		f.write("one/SKILL.md", plain("one"))
		f.write("one/"+strings.Repeat(strings.Repeat("d", 200)+"/", 5)+"x", "x")
		f.only("", "")
		f.write("one/"+strings.Repeat(strings.Repeat("d", 200)+"/", 5)+strings.Repeat("x", 30), "x")
		f.only("a path of more than 1024 bytes", sectionLimits)
	})
	t.Run("depth", func(t *testing.T) {
		f := newFolder(t)
		f.write("one/SKILL.md", plain("one"))
		f.write("one/"+strings.Repeat("d/", maxDepth)+"x", "x")
		f.only("", "")
		f.write("one/"+strings.Repeat("d/", maxDepth+1)+"x", "x")
		f.only("nested more than 16 deep", sectionLimits)
	})
	t.Run("loop", func(t *testing.T) {
		f := newFolder(t)
		f.write("one/SKILL.md", plain("one"))
		if err := os.Symlink(".", filepath.Join(f.dir, Folder, "one", "loop")); err != nil {
			t.Skip("NOT TESTED: links cannot be made: ", err)
		}
		if k := f.only("", ""); k == nil || len(k.Files) > maxDepth {
			t.Errorf("%+v", k)
		}
	})
	t.Run("names", func(t *testing.T) {
		f := newFolder(t)
		f.write("one/SKILL.md", plain("one"))
		f.write("one/a\u202eb.md", "x")
		f.only("characters that a reader does not see", sectionMapping)
	})
	t.Run("folders", func(t *testing.T) {
		f := newFolder(t)
		for n := range maxSkills + 1 {
			if err := os.MkdirAll(filepath.Join(f.dir, Folder, fmt.Sprint(n)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if s := Read(f.dir); s.Err == nil || !strings.Contains(s.Err.Error(), "more than 1000 entries") {
			t.Errorf("%+v", s.Err)
		}
	})
	t.Run("no directory", func(t *testing.T) {
		f := newFolder(t)
		if err := os.WriteFile(filepath.Join(f.dir, Folder), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if s := Read(f.dir); s.Err == nil || !strings.Contains(s.Err.Error(), "no directory") {
			t.Errorf("%+v", s.Err)
		}
	})
}

// TestHiddenText finds text that no reader sees in the files of a skill.
func TestHiddenText(t *testing.T) {
	f := newFolder(t)
	f.write("one/SKILL.md", plain("one")+"see \U000e0072\U000e006d\n")
	f.write("one/a.md", "zero\u200bwidth")
	f.write("one/b.md", "no \u26a0\ufe0f harm")
	s := Serve("kit", Read(f.dir))
	e := s.Entries()[0]
	var judged struct{ Hidden map[string]string }
	if err := json.Unmarshal(e.Judged, &judged); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"SKILL.md": " \U000e0072\U000e006d", "a.md": " \u200b"},
		judged.Hidden); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(string(e.Raw), "hidden") {
		t.Errorf("clients get %s", e.Raw)
	}
}

// TestDirs names the directories of valid and invalid skills, and of what may become one.
func TestDirs(t *testing.T) {
	f := newFolder(t)
	f.write("empty/notes.md", "no skill yet")
	f.write("invalid/SKILL.md", "no frontmatter")
	f.write("large/SKILL.md", plain("large"))
	f.write("large/data/big", "")
	if err := os.Truncate(filepath.Join(f.dir, Folder, "large", "data", "big"), maxBytes); err != nil {
		t.Fatal(err)
	}
	f.write("one/SKILL.md", plain("one"))
	f.write("one/a/b/c.md", "c")
	s := Read(f.dir)
	var got []string
	for _, dir := range s.Dirs {
		rel, err := filepath.Rel(s.Root, dir)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(rel))
	}
	if diff := cmp.Diff([]string{"skills", "skills/empty", "skills/invalid", "skills/large", "skills/large/data",
		"skills/one", "skills/one/a", "skills/one/a/b"}, got); diff != "" {
		t.Error(diff)
	}
}
