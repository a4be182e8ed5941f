package docs_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// metric is what the code says of one metric of /metrics.
type metric struct {
	name, kind, help string
	labels           []string
}

// metrics returns those of httpserver/metrics.go, sorted by name: what desc is given, and which method of sink takes
// it.
func metrics(t testing.TB) (list []*metric) {
	t.Helper()
	known := make(map[string]*metric)
	ast.Inspect(parse(t, "httpserver/metrics.go"), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, value := range n.Values {
				call, ok := value.(*ast.CallExpr)
				if !ok || fmt.Sprint(call.Fun) != "desc" {
					continue
				}
				var words []string
				for _, arg := range call.Args {
					word, err := strconv.Unquote(arg.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					words = append(words, word)
				}
				m := &metric{name: "exthost_" + words[0], help: words[1], labels: words[2:]}
				known[n.Names[i].Name] = m
				list = append(list, m)
			}
		case *ast.CallExpr:
			kindOf(n, known)
		}
		return true
	})
	for _, m := range list {
		if m.kind == "" {
			t.Errorf("nothing says what kind of metric %s is", m.name)
		}
	}
	slices.SortFunc(list, func(a, b *metric) int { return cmp.Compare(a.name, b.name) })
	return list
}

// kindOf notes the kind that a call of s.gauge, s.counter, s.histogram or prometheus.MustNewConstMetric gives a metric.
func kindOf(call *ast.CallExpr, known map[string]*metric) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 2 {
		return
	}
	m := known[fmt.Sprint(call.Args[0])]
	if m == nil {
		return
	}
	m.kind = f.Sel.Name
	if of, ok := call.Args[1].(*ast.SelectorExpr); ok && f.Sel.Name == "MustNewConstMetric" {
		m.kind = strings.ToLower(strings.TrimSuffix(of.Sel.Name, "Value"))
	}
}

// metricsTable is every metric with its kind and labels.
func metricsTable(t testing.TB) string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | |\n|---|---|---|---|\n")
	for _, m := range metrics(t) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(m.labels, ", "), cell(m.help))
	}
	return b.String()
}
