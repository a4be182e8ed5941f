package store

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// judge decides which of the files beside a tree may be loaded as code by a program.
type judge struct {
	dir    string
	isCode IsCode
	found  folder
	stems  map[string]bool // paths of files in the tree that Node also finds without their extension
	dirs   map[string]bool // directories in the tree
}

// judge returns a judge for the sorted paths in beside.
func (s Store) judge(dir string, found folder, beside []string) *judge {
	j := &judge{dir, s.isCode, found, map[string]bool{}, map[string]bool{}}
	if len(beside) == 0 || s.isCode == nil {
		return j
	}
	for name := range found {
		if _, is := slices.BinarySearch(beside, name); !is {
			j.add(strings.ToLower(name)) // file systems on macOS and Windows ignore case
		}
	}
	return j
}

func (j *judge) add(name string) {
	if ext := path.Ext(name); ext == ".js" || ext == ".json" || ext == ".node" {
		j.stems[strings.TrimSuffix(name, ext)] = true
	}
	for dir := path.Dir(name); dir != "." && !j.dirs[dir]; dir = path.Dir(dir) {
		j.dirs[dir] = true
	}
}

// loads reports whether a program may load a file beside the tree: because the file is code, or because Node finds
// it in place of code of the tree. For require('./x') Node prefers x to x.js and x.json, and x.json to x.node and
// the directory x. In node_modules, Node finds every file by its name.
func (j *judge) loads(name string) bool {
	info := j.found[name].info
	switch {
	case info.Mode()&fs.ModeSocket != 0:
		return false
	case j.isCode == nil || !info.Mode().IsRegular(): // a link may lead to code
		return true
	case j.isCode(filepath.Join(j.dir, filepath.FromSlash(name)), info):
		return true
	}
	name = strings.ToLower(name)
	in := path.Dir(name)
	if strings.HasPrefix(path.Base(in), "@") {
		in = path.Dir(in)
	}
	stem, json := strings.CutSuffix(name, ".json")
	return path.Base(in) == "node_modules" && !strings.HasPrefix(path.Base(name), ".") || j.stems[name] ||
		json && (j.dirs[stem] || j.stems[stem])
}
