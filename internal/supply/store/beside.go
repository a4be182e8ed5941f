package store

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// judge tells which of the files beside a tree a program may load as code.
type judge struct {
	dir    string
	isCode IsCode
	found  folder
	stems  map[string]bool // paths of files of the tree that are loaded by their name without its ending
	dirs   map[string]bool // directories of the tree
}

// judge returns a judge about the files in beside, which is sorted.
func (s Store) judge(dir string, found folder, beside []string) *judge {
	j := &judge{dir, s.isCode, found, map[string]bool{}, map[string]bool{}}
	if len(beside) == 0 || s.isCode == nil {
		return j
	}
	for name := range found {
		if _, is := slices.BinarySearch(beside, name); !is {
			j.add(strings.ToLower(name)) // as the file systems of macOS and Windows compare
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

// loads reports whether a program may load a file that is not of the tree: it is code, or is found
// in place of code of the tree. Node loads the file x for require('./x') before x.js and x.json, and
// x.json before x.node and the directory x; and any file of node_modules by its name.
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
