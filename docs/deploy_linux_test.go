package docs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// deployed is a file of examples/deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// probe is what a kubelet asks of a container; it goes by the Host of a request.
type probe struct {
	HTTPGet struct {
		Path        string
		HTTPHeaders []struct{ Name, Value string } `yaml:"httpHeaders"`
	} `yaml:"httpGet"`
	TCPSocket struct{ Port string } `yaml:"tcpSocket"`
}

// get asks a host at a port as the kubelet does, and returns the status code: 0 without an answer.
func (p probe) get(ctx context.Context, port string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+p.HTTPGet.Path, nil)
	if err != nil {
		return 0
	}
	for _, h := range p.HTTPGet.HTTPHeaders {
		if h.Name == "Host" {
			r.Host = h.Value
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// container is what a container of Kubernetes is run with, as far as the tests look at it.
type container struct {
	Command        []string
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	SecurityContext struct {
		Escalates    *bool `yaml:"allowPrivilegeEscalation"`
		Capabilities struct{ Drop []string }
	} `yaml:"securityContext"`
}

// resource is one document of kubernetes.yaml.
type resource struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Data       map[string]string
	Spec       struct {
		SessionAffinity string `yaml:"sessionAffinity"`
		Template        struct {
			Spec struct {
				Grace           int `yaml:"terminationGracePeriodSeconds"`
				SecurityContext struct {
					RunAsNonRoot bool `yaml:"runAsNonRoot"`
				} `yaml:"securityContext"`
				InitContainers []container `yaml:"initContainers"`
				Containers     []container
			}
		}
	}
}

// kubernetes returns the documents by kind and name.
func kubernetes(t *testing.T) map[string]*resource {
	t.Helper()
	all := make(map[string]*resource)
	for d := yaml.NewDecoder(strings.NewReader(deployed(t, "kubernetes.yaml"))); ; {
		r := new(resource)
		err := d.Decode(r)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil || r.APIVersion == "" || r.Metadata.Name == "" {
			t.Fatalf("%v: %+v", err, r)
		}
		all[r.Kind+" "+r.Metadata.Name] = r
	}
}

func (r *resource) container(t *testing.T) *container {
	t.Helper()
	if n := len(r.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("%s has %d containers", r.Metadata.Name, n)
	}
	return &r.Spec.Template.Spec.Containers[0]
}

type service struct {
	Command []string
	Stop    string `yaml:"stop_grace_period"`
	Volumes []string
}

func compose(t *testing.T) map[string]service {
	t.Helper()
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal([]byte(deployed(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

// podUser is the user and the group of pods.
const podUser = 10001

// hostEnds is how long a host takes at most to end.
const hostEnds = 5 * time.Second

// TestDeployFiles holds the files against the reader of configurations and the flags of the program.
func TestDeployFiles(t *testing.T) {
	k8s := kubernetes(t)
	texts := []string{deployed(t, "exthost.yaml"), k8s["ConfigMap exthost"].Data["exthost.yaml"]}
	var parsed [2]any
	for i, text := range texts {
		file := filepath.Join(t.TempDir(), "exthost.yaml")
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600),
			yaml.Unmarshal([]byte(text), &parsed[i])); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.LoadOptions{
			Dir:       t.TempDir(),
			File:      file,
			Environ:   []string{},
			UserDir:   "none",
			SystemDir: "none",
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range cfg.Warnings {
			if !strings.Contains(d.Message, "without TLS") { // a proxy or the mesh has it
				t.Error(d)
			}
		}
	}
	if diff := cmp.Diff(parsed[0], parsed[1]); diff != "" {
		t.Errorf("the configurations differ: %s", diff)
	}
	var commands []string
	for name, s := range compose(t) {
		if len(s.Command) > 0 {
			commands = append(commands, strings.Join(s.Command, " "))
			if grace, err := time.ParseDuration(s.Stop); err != nil || grace <= hostEnds {
				t.Errorf("%s is given %s to end", name, s.Stop)
			}
		}
	}
	for name, r := range k8s {
		spec := &r.Spec.Template.Spec
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			commands = append(commands, strings.Join(c.Command, " "))
			if e := c.SecurityContext.Escalates; e == nil || *e ||
				!slices.Contains(c.SecurityContext.Capabilities.Drop, "ALL") {
				t.Errorf("%s has privileges", name)
			}
		}
		if r.Kind != "StatefulSet" {
			continue
		}
		c := r.container(t)
		if grace := time.Duration(spec.Grace-c.Lifecycle.PreStop.Sleep.Seconds) * time.Second; grace <= hostEnds ||
			!spec.SecurityContext.RunAsNonRoot || c.LivenessProbe.HTTPGet.Path+c.LivenessProbe.TCPSocket.Port == "" {
			t.Errorf("%s: %v to end, or root, or no probe", name, grace)
		}
	}
	if a := k8s["Service exthost"].Spec.SessionAffinity; a != "" {
		t.Errorf("sessions stick: %s", a)
	}
	commands = append(commands, deployed(t, "compose.yaml"), deployed(t, "kubernetes.yaml"),
		deployed(t, "exthost.service"), deployed(t, "exthost.service.d/node.conf"), deployed(t, "Dockerfile"))
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.Join(commands, "\n"), "\n") {
		_, args, ok := strings.Cut(line, "exthost ")
		first, _, _ := strings.Cut(args, " ")
		if first = strings.Trim(first, `",:`); !ok || first != "serve" && first != "cluster" {
			continue
		}
		args, _, _ = strings.Cut(args, " >")
		args = strings.Trim(args, `"]`)
		if seen[args] {
			continue
		}
		seen[args] = true
		if out, err := exec.Command(program(t), append(strings.Fields(args), "--help")...).CombinedOutput(); err !=
			nil {
			t.Errorf("exthost %s: %v\n%s", args, err, out)
		}
	}
	if len(seen) < 6 {
		t.Errorf("the commands of the files are not found: %v", seen)
	}
}

// TestDeployUnit has systemd read the unit.
func TestDeployUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("NOT TESTED: examples/deploy/exthost.service: systemd-analyze is missing")
	}
	file := filepath.Join(t.TempDir(), "exthost.service")
	text := deployed(t, "exthost.service")
	runnable := strings.NewReplacer("/usr/local/bin/exthost", program(t), "User=exthost", "User=root").Replace(text)
	if err := os.WriteFile(file, []byte(runnable), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if bytes.Contains(out, []byte("Failed to initialize manager")) || bytes.Contains(out, []byte("Failed to set up")) {
		t.Skipf("NOT TESTED: examples/deploy/exthost.service: systemd-analyze does not work here: %s", out)
	}
	if err != nil || bytes.Contains(out, []byte("exthost.service:")) {
		t.Errorf("%v: %s", err, out)
	}
	out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=30",
		filepath.Join(root, "examples/deploy/exthost.service")).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("unrecognized option")) {
		t.Errorf("the unit is rated worse than 3.0: %v: %s", err, out)
	}
	for _, covers := range []string{"ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset"} {
		if strings.Contains(text, "\n"+covers) {
			t.Errorf("with %s the kernel lets an extension have no /proc of its own: no isolate, no namespaces", covers)
		}
	}
}

// TestDeployCompose has docker read the file.
func TestDeployCompose(t *testing.T) {
	if err := exec.Command("docker", "compose", "version").Run(); err != nil {
		t.Skip("NOT TESTED: examples/deploy/compose.yaml, but for its commands: docker compose is missing")
	}
	cmd := exec.Command("docker", "compose", "-f", "compose.yaml", "config", "--quiet")
	cmd.Dir = filepath.Join(root, "examples", "deploy")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestDeployRuns runs what the containers of Kubernetes run, on loopback: the hub is made and runs,
// a node is invited, its secrets are copied, and it is ready.
func TestDeployRuns(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("NOT TESTED: the commands of examples/deploy/kubernetes.yaml: sh is missing")
	}
	exthost, as := program(t), (*syscall.SysProcAttr)(nil)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel) // after the processes have ended
	dir, k8s := t.TempDir(), kubernetes(t)
	hub, nodes := k8s["StatefulSet exthost-hub"], k8s["StatefulSet exthost"]
	ports := processtest.FreePorts(t, 2)
	for _, d := range []string{"state", "secrets", "run", "extensions", "node"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "extensions", "notes"),
		os.DirFS(filepath.Join(root, "extensions", "notes"))); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // then as the pods' user, on directories as volumes with an fsGroup have them
		as, exthost = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: podUser, Gid: podUser},
		}, filepath.Join(dir, "exthost")
		binary, err := os.ReadFile(program(t))
		if err := errors.Join(err, os.WriteFile(exthost, binary, 0o755), os.Chmod(filepath.Dir(dir), 0o755),
			os.Chmod(filepath.Join(dir, "extensions"), 0o755)); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{"state", "secrets", "run", "node"} {
			if err := errors.Join(os.Chown(filepath.Join(dir, d), 0, podUser),
				os.Chmod(filepath.Join(dir, d), os.ModeSetgid|0o775)); err != nil {
				t.Fatal(err)
			}
		}
	}
	here := strings.NewReplacer("mkdir -p /run/exthost", "mkdir -p "+dir+"/run/exthost", "/state", dir+"/state",
		"/secrets", dir+"/secrets", "/run/", dir+"/run/", "/extensions", dir+"/extensions", "/etc/exthost", dir,
		"tls://exthost-hub:7822", "tls://127.0.0.1:"+ports[0], "0.0.0.0:7822", "127.0.0.1:"+ports[0], "0.0.0.0:7800",
		"0.0.0.0:"+ports[1], "127.0.0.1:7800", "127.0.0.1:"+ports[1])
	run := func(in string, argv []string) *exec.Cmd {
		var words []string
		for _, word := range argv {
			words = append(words, here.Replace(word))
		}
		if words[0] == "exthost" {
			words[0] = exthost
		}
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Dir, cmd.SysProcAttr = filepath.Join(dir, in), as
		cmd.Env = []string{
			"HOME=" + dir,
			"XDG_STATE_HOME=" + cmd.Dir,
			"HOSTNAME=exthost-0",
			"PATH=" + filepath.Dir(exthost) + ":" + os.Getenv("PATH"),
		}
		if in == "state" {
			cmd.Env = append(cmd.Env, "EXTHOST_SERVER_LISTEN=127.0.0.1:0") // whose port the nodes here have too
		}
		return cmd
	}
	output := func(cmd *exec.Cmd) []byte {
		t.Helper()
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, stderr.Bytes())
		}
		return out
	}
	start := func(in string, argv []string) (end func()) {
		t.Helper()
		cmd := run(in, argv)
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := false
		end = func() {
			if ended {
				return
			}
			ended = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil || t.Failed() {
				t.Errorf("%v: %v\n%s", cmd.Args, err, log.Bytes())
			}
		}
		t.Cleanup(end)
		return end
	}

	for range 2 { // as at each start
		output(run("state", hub.Spec.Template.Spec.InitContainers[0].Command))
	}
	start("state", hub.container(t).Command)
	creds := output(run("state", strings.Fields("exthost cluster invite exthost-0 --config /state/hub/hub.yaml")))
	config := k8s["ConfigMap exthost"].Data["exthost.yaml"]
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "secrets", "exthost-0.creds"), creds, 0o440),
		// of their group, by setgid
		os.WriteFile(filepath.Join(dir, "secrets", "token"), []byte(strings.Repeat("token", 6)), 0o440),

		os.WriteFile(filepath.Join(dir, "exthost.yaml"), []byte(here.Replace(config)), 0o644)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		output(run("node", nodes.Spec.Template.Spec.InitContainers[0].Command))
	}
	end := start("node", nodes.container(t).Command)
	for nodes.container(t).ReadinessProbe.get(ctx, ports[1]) != http.StatusOK {
		if ctx.Err() != nil {
			t.Fatal("the node is not ready")
		}
	}
	if code := nodes.container(t).LivenessProbe.get(ctx, ports[1]); code != http.StatusOK {
		t.Fatalf("the liveness probe: %d", code)
	}
	status := output(run("node", []string{"exthost", "cluster", "nodes"}))
	for ; !bytes.Contains(status,
		[]byte("hub")); status = output(run("node", []string{"exthost", "cluster", "nodes"})) {
	}
	if tools := output(run("node",
		[]string{"exthost", "tools", "list", "--config", "/etc/exthost/exthost.yaml"})); !bytes.Contains(tools,
		[]byte("ext_notes_search")) {
		t.Errorf("the extensions do not run: %s", tools)
	}
	end()
}
