package manifest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRuntimeResolveDefaults(t *testing.T) {
	want := Options{
		Activation:     "eager",
		Instances:      "shared",
		MaxInstances:   16,
		StartTimeout:   10 * time.Second,
		CallTimeout:    30 * time.Second,
		MaxCallTimeout: 10 * time.Minute,
		ShutdownGrace:  3 * time.Second,
		KillGrace:      time.Second,
		DrainTimeout:   30 * time.Second,
		MaxInFlight:    64,
		MaxQueue:       256,
		MaxLineBytes:   16 << 20,
		Replay:         "never",
		Reload:         "overlap",
		Isolate:        "none",
		Restart: RestartOptions{
			MaxAttempts:  5,
			Window:       5 * time.Minute,
			BaseBackoff:  time.Second,
			MaxBackoff:   16 * time.Second,
			HealthyAfter: time.Minute,
		},
	}
	stdio := Transport{Kind: KindStdio, Protocol: ProtocolNative, Command: "./x"}
	if diff := cmp.Diff(want, Runtime{}.Resolve(stdio)); diff != "" {
		t.Errorf("native (-want +got):\n%s", diff)
	}
	lite := want
	lite.Activation, lite.ShutdownGrace, lite.MaxInFlight = "lazy", 30*time.Second, 1
	if diff := cmp.Diff(lite, Runtime{}.Resolve(Transport{Kind: KindStdio, Protocol: ProtocolLite})); diff != "" {
		t.Errorf("lite (-want +got):\n%s", diff)
	}
	if got := (Runtime{}).Resolve(Transport{Kind: KindExec}).Activation; got != "lazy" {
		t.Errorf("exec is %s", got)
	}
	server := Transport{Kind: KindStdio, Protocol: ProtocolMCP, Command: "python3"}
	if got := (Runtime{}).Resolve(server).StartTimeout; got != time.Minute {
		t.Errorf("an MCP server starts within %v", got)
	}
	for _, t2 := range []Transport{
		{Command: "npx"},
		{Cmd: []string{"/usr/bin/uvx", "x"}},
		{Command: `C:\nodejs\npx.cmd`},
	} {
		if got := (Runtime{}).Resolve(t2).StartTimeout; got != 2*time.Minute {
			t.Errorf("%+v starts within %v", t2, got)
		}
	}
}

func TestRuntimeResolveStated(t *testing.T) {
	hour, none := Duration(time.Hour), Duration(0)
	o := Runtime{CallTimeout: &hour, IdleTimeout: &hour, ShutdownGrace: &none, Restart: Restart{MaxAttempts: new(0)}}.
		Resolve(Transport{Kind: KindStdio, Protocol: ProtocolLite})
	if o.CallTimeout != time.Hour || o.MaxCallTimeout != time.Hour || o.ShutdownGrace != 0 ||
		o.Restart.MaxAttempts != 0 {
		t.Errorf("got %+v", o)
	}
}

func TestRuntimeOver(t *testing.T) {
	second, minute := Duration(time.Second), Duration(time.Minute)
	base := Runtime{
		Activation:    "lazy",
		CallTimeout:   &minute,
		RecycleOnHang: new(true),
		Restart:       Restart{MaxAttempts: new(3), Window: &minute},
	}
	top := Runtime{CallTimeout: &second, RecycleOnHang: new(false), Restart: Restart{MaxAttempts: new(0)}}
	want := Runtime{
		Activation:    "lazy",
		CallTimeout:   &second,
		RecycleOnHang: new(false),
		Restart:       Restart{MaxAttempts: new(0), Window: &minute},
	}
	if diff := cmp.Diff(want, top.Over(base)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if *base.Restart.MaxAttempts != 3 {
		t.Error("Over changed its base")
	}
}

func TestRuntimeFromJSON(t *testing.T) {
	var r Runtime
	err := json.Unmarshal([]byte(
		`{"call_timeout": 1500, "idle_timeout": "2m", "instances": 3, "limits": {"memory": "1GiB", "file_size": 10}}`),
		&r)
	if err != nil {
		t.Fatal(err)
	}
	if *r.CallTimeout != Duration(1500*time.Millisecond) || *r.IdleTimeout != Duration(2*time.Minute) ||
		r.Instances.Count() != 3 ||
		*r.Limits.Memory != 1<<30 || *r.Limits.FileSize != 10 {
		t.Errorf("got %+v", r)
	}
	for _, text := range []string{`{"call_timeout": -1}`, `{"call_timeout": 1.5}`, `{"call_timeout": true}`,
		`{"call_timeout": 1e300}`,
		`{"instances": "many"}`, `{"instances": -1}`, `{"limits": {"memory": "1TB"}}`} {
		if err := json.Unmarshal([]byte(text), new(Runtime)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestCommandWords(t *testing.T) {
	for line, want := range map[string]Command{
		`a b  c`:               {"a", "b", "c"},
		`a 'b c' "d \"e\" $f"`: {"a", "b c", `d "e" $f`},
		`a b\ c ''`:            {"a", "b c", ""},
		`a x=1 ${V:-d} {p}`:    {"a", "x=1", "${V:-d}", "{p}"},
		``:                     nil,
	} {
		var c Command
		if err := c.UnmarshalText([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	for _, line := range []string{`a | b`, `a > b`, `a && b`, `a *.go`, `A=b c`, `a $HOME`, "a `b`", `a $(b)`, `a 'b`,
		`a # b`, `a \`} {
		if err := new(Command).UnmarshalText([]byte(line)); err == nil {
			t.Errorf("%s is accepted", line)
		}
	}
}

func TestJSONKeepsNumbersAndDates(t *testing.T) {
	m := mustParse(t, minimal+"[config]\nbig = 9007199254740993\nday = 2026-11-20\nat = 2026-11-20T10:00:00Z\nlocal "+
		"= 2026-11-20T10:00:00\nhtml = \"<b>\"\nlist = [{ a = 1 }]\n")
	got, err := EncodeJSON(m.Config)
	want := `{"at":"2026-11-20T10:00:00Z","big":9007199254740993,"day":"2026-11-20","html":"<b>","list":[{"a":1}],"local":"2026-11-20T10:00:00"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestMergeConfig(t *testing.T) {
	m := mustParse(t, minimal+"[config]\ncity = \"Oslo\"\nunits = { wind = \"m/s\", temp = \"C\" "+
		"}\n[config_schema]\nrequired = [\"key\"]\nproperties.key.type = \"string\"\n")
	got, err := m.MergeConfig(map[string]any{"key": "k", "units": map[string]any{"temp": "F"}})
	if want := `{"city":"Oslo","key":"k","units":{"temp":"F","wind":"m/s"}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if _, err := m.MergeConfig(nil); err == nil || !strings.Contains(err.Error(), "key") {
		t.Errorf("without what the schema requires: %v", err)
	}
	if _, err := m.MergeConfig(map[string]any{"key": 1}); err == nil || !strings.Contains(err.Error(), "config.key") {
		t.Errorf("with the wrong type: %v", err)
	}
	if got, err := mustParse(t, minimal).MergeConfig(nil); err != nil || string(got) != "{}" {
		t.Errorf("without a config: %s, %v", got, err)
	}
}
