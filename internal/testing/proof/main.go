// Proof writes the pages of docs/proof from what the suites print, in a checkout:
//
//	EXTHOST_PEERS=DIR go run ./internal/testing/proof [conformance] [storms] ...
//
// Without names it writes all pages. It runs the suites as .ci/run does: DIR is what .ci/peers has made, servers
// needs npm, pip and their registries, and storms and benchmarks need the machine for themselves. A page says of
// which commit, when, where and beside which load its figures are, and has none that no suite has printed. What
// fails or skips stands on the page as such, and ends the command with 1.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// page is a file of docs/proof.
type page struct {
	name  string
	title string
	about string              // what the suites are
	write func(*report) error // runs them
}

var pages = []page{conformance, agentPlugins, threats, storms, benchmarks, compatibility, servers}

func main() {
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/testing/proof [PAGE...], in the checkout; the pages are:")
		for _, p := range pages {
			fmt.Fprintf(os.Stderr, "  %-14s %s\n", p.name, p.title)
		}
	}
	flag.Parse()
	var list []page
	for _, name := range flag.Args() {
		i := slices.IndexFunc(pages, func(p page) bool { return p.name == name })
		if i < 0 {
			flag.Usage()
			os.Exit(2)
		}
		list = append(list, pages[i])
	}
	if list == nil {
		list = pages
	}
	code := 0
	for _, p := range list {
		if err := p.prove(); err != nil {
			fmt.Fprintf(os.Stderr, "proof: %s: %v\n", p.name, err)
			code = 1
		}
	}
	os.Exit(code)
}

// prove runs the suites of a page and writes it. The error names what did not pass.
func (p page) prove() error {
	made, err := origin() // before the suites load the machine
	if err != nil {
		return err
	}
	r := new(report)
	if err := p.write(r); err != nil {
		return err
	}
	text := fmt.Sprintf("# %s\n\n%s\n\nMade by `go run ./internal/testing/proof %s` on %s, of commit %s, on %s.\n%s",
		p.title, p.about, p.name, time.Now().Format(time.DateOnly), made.commit, made.machine, &r.text)
	if err := os.WriteFile(filepath.Join("docs", "proof", p.name+".md"), []byte(text), 0o644); err != nil {
		return err
	}
	if len(r.other) > 0 {
		return fmt.Errorf("did not pass: %s", strings.Join(r.other, ", "))
	}
	return nil
}
