package store

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/supply/consent"
)

func linkTo(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
}

// TestUnpackLinks puts copies in place of links within an archive, and refuses those that lead out of it.
func TestUnpackLinks(t *testing.T) {
	many := []tar.Header{{Name: "x"}}
	for i := range maxLinks + 1 {
		many = append(many, linkTo(fmt.Sprint("l", i), "x"))
	}
	empty := []tar.Header{}
	for i := range 200 {
		empty = append(empty, tar.Header{Name: fmt.Sprintf("d/%d/", i), Typeflag: tar.TypeDir})
	}
	for i := range MaxFiles/200 + 2 {
		empty = append(empty, linkTo(fmt.Sprint("l", i), "d"))
	}
	for name, tt := range map[string]struct {
		entries []tar.Header
		strip   int
		want    string // names, or what the error says
	}{
		"a file":       {[]tar.Header{{Name: "A.md"}, linkTo("sub/B.md", "../A.md")}, 0, "A.md sub/B.md"},
		"before it":    {[]tar.Header{linkTo("B.md", "A.md"), {Name: "A.md"}}, 0, "A.md B.md"},
		"a chain":      {[]tar.Header{linkTo("a", "b"), linkTo("b", "./c"), {Name: "c"}}, 0, "a b c"},
		"a directory":  {[]tar.Header{{Name: "d/x"}, {Name: "d/e/y"}, linkTo("l", "d")}, 0, "d/e/y d/x l/e/y l/x"},
		"in a folder":  {[]tar.Header{{Name: "top/d/x"}, linkTo("top/l", "d/x")}, 1, "d/x l"},
		"absolute":     {[]tar.Header{linkTo("a", "/etc/passwd")}, 0, "which is not in the package"},
		"out":          {[]tar.Header{linkTo("d/a", "../../x")}, 0, "which is not in the package"},
		"out of a top": {[]tar.Header{{Name: "other"}, linkTo("top/l", "../other")}, 1, "lies outside"},
		"nowhere":      {[]tar.Header{linkTo("a", "b")}, 0, "which is not in the package"},
		"the root":     {[]tar.Header{linkTo("a", ".")}, 0, "which is not in the package"},
		"a circle":     {[]tar.Header{linkTo("a", "b"), linkTo("b", "a")}, 0, "leads to over 8 others"},
		"its parent":   {[]tar.Header{{Name: "d/x"}, linkTo("d/l", "../d")}, 0, "the directory that it is in"},
		"links below":  {[]tar.Header{{Name: "d/x"}, linkTo("d/y", "x"), linkTo("l", "d")}, 0, "which is not followed"},
		"through it":   {[]tar.Header{{Name: "d/x"}, linkTo("l", "d"), {Name: "l/y"}}, 0, "is there twice"},
		// whichever of two links comes first by name
		"through another": {[]tar.Header{{Name: "d/e/x"}, linkTo("m", "d"), linkTo("a", "m/e/x"),
			linkTo("z", "m/e/x")}, 0, "a d/e/x m/e/x z"},
		"through two": {[]tar.Header{{Name: "d/e/x"}, linkTo("m", "d"), linkTo("n", "m/e"), linkTo("b", "n/x")}, 0,
			"b d/e/x m/e/x n/x"},
		"through a file": {[]tar.Header{{Name: "x"}, linkTo("m", "x"), linkTo("a", "m/y")}, 0,
			"which is not in the package"},
		"through itself": {[]tar.Header{linkTo("a", "a/x")}, 0, "leads to over 8 others"},
		"below another": {[]tar.Header{{Name: "d/x"}, linkTo("l", "d"), linkTo("l/y", "../d/x")}, 0,
			"below the symbolic link"},
		"below a later one": {[]tar.Header{{Name: "d/x"}, linkTo("l/y", "../d/x"), linkTo("l", "d")}, 0,
			"below the symbolic link"},
		"twice":        {[]tar.Header{{Name: "a"}, linkTo("a", "b")}, 0, "is there twice"},
		"in its place": {[]tar.Header{linkTo("a", "b"), {Name: "a"}, {Name: "b"}}, 0, "is there twice"},
		"backslashes":  {[]tar.Header{linkTo("a", `..\..\x`)}, 0, "which is not in the package"},
		"a long path": {[]tar.Header{{Name: "x"}, linkTo("l", strings.Repeat("./", maxTarget/2)+"x")}, 0,
			"a path of over 4096 bytes"},
		"too many":  {many, 0, "over 1000 symbolic links"},
		"much work": {empty, 0, "there are over 50000 files"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(t.TempDir(), consent.HoldsCode)
			tree, err := s.New()
			if err != nil {
				t.Fatal(err)
			}
			err = tree.UnpackLinks(TarGz, tgz(t, "content", tt.entries...), "", tt.strip)
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v; want %q", err, tt.want)
				}
				return
			}
			found, err := list(tree.Dir())
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(slices.Sorted(maps.Keys(found)), " "); got != tt.want {
				t.Errorf("%s; want %s", got, tt.want)
			}
			for name, e := range found {
				if !e.info.Mode().IsRegular() || e.Size != int64(len("content")) {
					t.Errorf("%s: %v", name, e.info)
				}
			}
			if _, err := tree.Hash(); err != nil {
				t.Error(err)
			}
		})
	}
	s := New(t.TempDir(), consent.HoldsCode)
	tree, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.UnpackLinks(Zip, zipped(t, fs.ModeSymlink|0o777, "/etc/passwd", "link"), "", 0); err == nil {
		t.Error("a link out of a zip file is taken")
	}
}
