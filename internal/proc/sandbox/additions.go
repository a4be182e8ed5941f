package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/manifest/sandbox"
)

// Additions returns the lines that grant an extension what its sandbox refused: files, and hosts as host:port. t is the
// extension's table, nil for none. Each line is a complete entry, including what the table already has. After them come
// the accesses that no table can grant.
func (p *Policy) Additions(t *sandbox.Table, refused []Access, targets []string) (lines []string) {
	if t == nil {
		t = sandbox.Override{Mode: sandbox.Strict}.Over(nil, "", "")
	}
	var read, write, net, never []string
	for _, a := range together(refused) {
		name, err := p.At.Name(a.Path, a.Write)
		switch {
		case err != nil:
			never = append(never, fmt.Sprintf("refused, and cannot be asked for: %s: %v", a.Path, err))
		case a.Write:
			write = append(write, name)
		default:
			read = append(read, name)
		}
	}
	for _, target := range targets {
		if problems := (&sandbox.Table{Net: sandbox.Net{target, target}}).Validate(); len(problems) > 0 {
			never = append(never, fmt.Sprintf("refused, and cannot be asked for: %s: %s", target, problems[0].Message))
			continue
		}
		net = append(net, target)
	}
	for _, list := range []struct {
		key      string
		has, new []string
	}{{"read", t.Read, read}, {"write", t.Write, write}, {"net", t.Net.Hosts(), net}} {
		if len(list.new) > 0 {
			slices.Sort(list.new)
			lines = append(lines, fmt.Sprintf("%s = [%s]", list.key, quoted(slices.Concat(list.has, list.new))))
		}
	}
	if len(lines) > 0 {
		lines = append([]string{
			"its sandbox refused some accesses; if the extension needs them, set in [sandbox]:",
		}, lines...)
	}
	return append(lines, never...)
}

// together replaces three or more files of a folder by the folder.
func together(refused []Access) (all []Access) {
	in := make(map[Access]int)
	for _, a := range refused {
		in[Access{Path: filepath.Dir(a.Path), Write: a.Write}]++
	}
	for _, a := range refused {
		around := Access{Path: filepath.Dir(a.Path), Write: a.Write}
		if in[around] >= 3 && !isPersonal(around.Path) {
			a = around
		}
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

func quoted(words []string) string {
	for i, w := range words {
		words[i] = strconv.Quote(w)
	}
	return strings.Join(words, ", ")
}
