package docs_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/exthost/exthost/internal/testing/processtest"
)

const monitoring = "examples/monitoring"

// dashboard is what the tests look at in dashboard.json.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Type    string
		Targets []struct{ RefID, Expr string }
		GridPos struct{ X, Y, W, H int } `json:"gridPos"`
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, monitoring, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Record, Alert, Expr string
			Labels, Annotations map[string]string
		}
	}
}

// readYAML decodes a file of examples/monitoring.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, monitoring, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestMonitoringFiles holds the dashboard and the rules against the metrics that the code has, and the alerts against
// their tests.
func TestMonitoringFiles(t *testing.T) {
	known := map[string]bool{}
	for _, m := range metrics(t) {
		known[m.name] = true
		if m.kind == "histogram" {
			known[m.name+"_bucket"], known[m.name+"_count"], known[m.name+"_sum"] = true, true, true
		}
	}
	var rules ruleFile
	readYAML(t, "rules.yaml", &rules)
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
			Series []struct{ Series string } `yaml:"input_series"`
		}
	}
	readYAML(t, "rules_test.yaml", &tests)
	exprs, fires := []string{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
		}
		for _, s := range test.Series {
			exprs = append(exprs, s.Series)
		}
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			exprs = append(exprs, r.Expr)
			if r.Record != "" {
				continue
			}
			if !fires[r.Alert] {
				t.Errorf("rules_test.yaml has no case in which %s fires", r.Alert)
			}
			if r.Annotations["summary"] == "" || r.Annotations["next"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s lacks its severity, summary or next step", r.Alert)
			}
		}
	}
	d, ids := readDashboard(t), map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q has the id of another, no place or no query", p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	for _, v := range d.Templating.List {
		exprs = append(exprs, v.Definition)
	}
	used := map[string]bool{}
	for _, expr := range exprs {
		for _, name := range regexp.MustCompile(`\bexthost_\w+`).FindAllString(expr, -1) {
			if used[name] = true; !known[name] {
				t.Errorf("there is no metric %s, which %s reads", name, expr)
			}
		}
	}
	if len(used) < 25 {
		t.Errorf("the files use %d metrics", len(used))
	}
}

// TestMonitoring runs the rules and every query of the dashboard, with promtool, on the metrics of a host that has
// served calls.
func TestMonitoring(t *testing.T) {
	processtest.Optional(t)
	promtool := filepath.Join(os.Getenv("EXTHOST_PEERS"), "bin", "promtool")
	if _, err := os.Stat(promtool); err != nil {
		if promtool, err = exec.LookPath("promtool"); err != nil {
			t.Skip("NOT TESTED: the queries of examples/monitoring: promtool is missing")
		}
	}
	dir, err := filepath.Abs(filepath.Join(root, monitoring))
	if err != nil {
		t.Fatal(err)
	}
	run := func(input []byte, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run(nil, "check", "config", "--syntax-only", "prometheus.yaml")
	run(nil, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")
	run(nil, "test", "rules", "rules_test.yaml")

	scrapes := scrapeHost(t)
	run(scrapes[len(scrapes)-1], "check", "metrics")
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, queries(t, dir, scrapes), 0o600); err != nil {
		t.Fatal(err)
	}
	run(nil, "test", "rules", file)
}

// scrapeHost returns what /metrics of a host says at first, and again after more and more calls.
func scrapeHost(t *testing.T) (scrapes [][]byte) {
	r := newRunner(t)
	r.at = new(block)
	r.env = append(r.env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1") // a collector that is away
	const config = `
plugins:
  - name: readers
    category: authorization
    builtin: access
    config:
      rules:
      - {effect: deny, tools: [ext_notes_delete]}
hooks:
  - {event: after_tool_call, command: ["true"]}
`
	if err := os.WriteFile(filepath.Join(r.dir, "monitored.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r.serve("exthost serve --config monitored.yaml", "…")
	if out, err := r.shell("exthost status --ready --wait 60s").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 4 {
		resp, err := http.Get("http://" + r.server.address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %s", err, data)
		}
		scrapes = append(scrapes, data)
		const call = "exthost call --config monitored.yaml "
		out, err := r.shell(call + "ext_notes_add text=milk; " + call + "ext_notes_delete id=1; true").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(`"milk"`)) || !bytes.Contains(out, []byte("policy readers")) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return scrapes
}

// queries returns a test for promtool: the series are those that were scraped, a minute apart. Each query of the
// dashboard and each recording rule must have a result, but for those about clusters and failures.
func queries(t *testing.T, dir string, scrapes [][]byte) []byte {
	const labels = `job="exthost",instance="127.0.0.1:7800"`
	values, order := map[string][]string{}, []string{}
	for i, scrape := range scrapes {
		for lines := bufio.NewScanner(bytes.NewReader(scrape)); lines.Scan(); {
			at := strings.LastIndexByte(lines.Text(), ' ')
			if at < 0 || strings.HasPrefix(lines.Text(), "#") {
				continue
			}
			series, value := lines.Text()[:at], lines.Text()[at+1:]
			if name, rest, ok := strings.Cut(series, "{"); ok {
				series = name + "{" + labels + "," + rest
			} else {
				series += "{" + labels + "}"
			}
			if values[series] == nil {
				order = append(order, series)
				for range i {
					values[series] = append(values[series], "_")
				}
			}
			values[series] = append(values[series], value)
		}
	}
	type m map[string]any
	input := []m{{"series": "up{" + labels + "}", "values": "1x20"}}
	for _, series := range order {
		input = append(input, m{"series": series, "values": strings.Join(values[series], " ")})
	}
	var tests []m
	ask := func(expr string) {
		if strings.Contains(expr, "exthost_cluster_") { // metrics that this host does not have
			return
		}
		tests = append(tests, m{
			"expr":        "count(" + expr + ") > bool 0",
			"eval_time":   fmt.Sprintf("%dm", len(scrapes)-1),
			"exp_samples": []m{{"labels": "{}", "value": 1}},
		})
	}
	here := strings.NewReplacer("$job", "exthost", "$instance", ".*", "$extension", ".*", "$__rate_interval", "5m")
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			ask(here.Replace(target.Expr))
		}
	}
	var rules ruleFile
	readYAML(t, "rules.yaml", &rules)
	for _, r := range rules.Groups[0].Rules {
		if !strings.Contains(r.Record, "failures") { // no call of this host has failed
			ask(r.Record)
		}
	}
	out, err := yaml.Marshal(m{
		"rule_files":          []string{filepath.Join(dir, "rules.yaml")},
		"evaluation_interval": "1m",
		"tests":               []m{{"interval": "1m", "input_series": input, "promql_expr_test": tests}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
