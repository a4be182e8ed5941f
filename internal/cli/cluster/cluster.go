// Package cluster implements exthost cluster, which creates a cluster of hosts and manages its nodes.
package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/cluster/hub"
	"github.com/exthost/exthost/config"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text"
)

// Command returns exthost cluster.
func Command(c *console.Console) *cobra.Command {
	return console.Group("cluster", "Join hosts on many machines",
		start(c), invite(c), revoke(c), permissions(c), listNodes(c), check(c))
}

// initial is what exthost cluster init creates and prints.
type initial struct {
	Cluster     string   `json:"cluster"`
	Node        string   `json:"node"` // the name of this host in the cluster
	Dir         string   `json:"dir"`
	URLs        []string `json:"urls"` // where nodes connect to the hub
	Fingerprint string   `json:"ca_sha256"`
	File        string   `json:"file"` // the configuration file that was changed

	listen string
}

func start(c *console.Console) *cobra.Command {
	var n initial
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a cluster whose hub runs in this host",
		Args:  console.NoArgs,
		Long: "Make the keys of a cluster in a directory that nobody else may read, invite this host, and\n" +
			"state both in the user's configuration, or in the file of --config. From its next start on,\n" +
			"exthost serve runs a NATS server, the hub, that nodes connect to with TLS. Who can read the\n" +
			"directory decides who is a node: keep it as a password, and a copy of it elsewhere.",
		Example: "  exthost cluster init --listen 0.0.0.0:7822\n  exthost cluster init --listen 0.0.0.0:7822 --url " +
			"tls://hub.example:7822",
		RunE: func(*cobra.Command, []string) error { return n.run(c) },
	}
	cmd.Flags().StringVar(&n.listen, "listen", "127.0.0.1:7822", "let nodes connect to `ADDR`")
	cmd.Flags().StringSliceVar(&n.URLs, "url", nil,
		"where nodes find the hub, once for each (default: the address, with the name of this machine where it is any)")
	cmd.Flags().StringVar(&n.Dir, "dir", "cluster", "the directory `DIR` of the keys")
	cmd.Flags().StringVar(&n.Cluster, "name", "main", "the `NAME` of the cluster")
	cmd.Flags().StringVar(&n.Node, "node", "", "the `NAME` of this host in the cluster (default: that of the machine)")
	return cmd
}

func (n *initial) run(c *console.Console) (err error) {
	const help = "exthost cluster init --help"
	if n.Node = cmp.Or(n.Node, settings.NodeOfHost()); n.Node == "" {
		return console.Usagef("exthost cluster init --node n1", "the name of this machine cannot be the name of a node")
	}
	for _, name := range []string{n.Cluster, n.Node} {
		if err := settings.CheckName(name); err != nil {
			return console.Usagef(help, "%v", err)
		}
	}
	if n.Dir, err = filepath.Abs(n.Dir); err != nil {
		return err
	}
	m := settings.Default()
	m.Hub = settings.Hub{Listen: n.listen, Dir: n.Dir}
	if problems := m.Validate(); len(problems) > 0 {
		return console.Usagef("exthost cluster init --listen 0.0.0.0:7822", "--listen: %s", problems[0].Message)
	}
	if err := n.defaultURL(); err != nil {
		return err
	}
	for _, u := range n.URLs {
		if err := settings.CheckURL(u); err != nil {
			return console.Usagef(help, "--url: %v", err)
		}
	}
	if n.File, err = n.file(c); err != nil {
		return err
	}
	f, err := hub.Init(n.Dir, n.Cluster, n.URLs)
	if errors.Is(err, hub.ErrExists) {
		return &console.Error{
			Code: console.ExitFailed,
			Text: err.Error(),
			Hint: "exthost cluster invite NODE, or name another directory with --dir",
		}
	}
	if err != nil {
		return err
	}
	text, err := f.Invite(n.Node)
	if err != nil {
		return err
	}
	join := filepath.Join(n.Dir, n.Node+".creds")
	if err := file.WritePrivate(join, []byte(text)); err != nil {
		return err
	}
	n.Fingerprint = f.Fingerprint()
	if err := state(n.File, join, m.Hub); err != nil {
		return err
	}
	return c.Print(console.Document{Kind: "cluster", Value: n, Text: n.text()})
}

// defaultURL sets the hub's URL from --listen unless --url is given.
func (n *initial) defaultURL() error {
	host, port, err := net.SplitHostPort(n.listen)
	if err != nil || len(n.URLs) > 0 {
		return err
	}
	if port == "0" {
		return console.Usagef("exthost cluster init --listen 0.0.0.0:7822",
			"--listen: nodes that are invited need to know the port")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return console.Usagef("exthost cluster init --url tls://n1:"+port,
				"the name of this machine is not known: %v", err)
		}
	}
	n.URLs = []string{"tls://" + net.JoinHostPort(host, port)}
	return nil
}

// file returns the configuration file to change. It returns an error if the configuration has a cluster already.
func (n *initial) file(c *console.Console) (string, error) {
	if _, err := os.Stat(c.Config); c.Config != "" && errors.Is(err, fs.ErrNotExist) {
		return filepath.Abs(c.Config)
	}
	cfg, origins, err := hosts.Load(c)
	if err != nil {
		return "", err
	}
	if cfg.Cluster.Joins() || cfg.Cluster.Hub.Listen != "" {
		return "", &console.Error{
			Code: console.ExitFailed,
			Text: "this host is in a cluster already: " + origins.Of("cluster"),
			Hint: "exthost cluster invite NODE; or remove the section cluster: from there first",
		}
	}
	return config.UserFile(hosts.LoadOptions(c), "cluster")
}

// state writes the section cluster into the configuration.
func state(file, join string, h settings.Hub) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	err := settings.State(file, join, h)
	if byHand, ok := errors.AsType[*settings.ByHand](err); ok {
		return &console.Error{
			Code: console.ExitInvalid,
			Text: fmt.Sprintf("%v\nWrite into %s:\n\n%s", byHand, console.NearbyPath(file), byHand.Lines),
			Hint: "exthost serve, once the file has these lines",
		}
	}
	return err
}

func (n *initial) text() string {
	return fmt.Sprintf("cluster %s: its keys are in %s (CA sha256:%s)\nthis host is the node %s and runs the hub at "+
		"%s from its next start on: %s\n"+
		"next: exthost serve; and for each other host: exthost cluster invite NODE > NODE.creds",
		n.Cluster, console.NearbyPath(n.Dir), n.Fingerprint[:16], n.Node, strings.Join(n.URLs, ", "),
		console.NearbyPath(n.File))
}

// dirFlag adds --dir; its default comes from the configuration.
func dirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "",
		"the directory `DIR` of exthost cluster init (default: cluster.hub.dir, else ./cluster)")
}

// files opens the keys of the cluster.
func files(c *console.Console, dir string) (*hub.Files, error) {
	if dir == "" {
		cfg, _, err := hosts.Load(c)
		if err != nil {
			return nil, err
		}
		dir = cmp.Or(cfg.Cluster.Hub.Dir, "cluster")
	}
	f, err := hub.OpenFiles(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &console.Error{
			Code: console.ExitNotFound,
			Text: "there is no cluster in " + console.NearbyPath(dir),
			Hint: "exthost cluster init, or --dir with the directory that it made",
		}
	}
	return f, err
}

func invite(c *console.Console) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "invite NODE",
		Short: "Let a host join the cluster, and print the file that it joins with",
		Args:  console.One("the NODE to invite"),
		Long: "Make a key for a node and print the file that it joins with: where the hub is, the CA of its\n" +
			"certificates, and what the node may say. The file is that node and nothing else: keep it as a\n" +
			"password. It is shown this once. Hubs that run let the node in at once.",
		Example: "  exthost cluster invite gpu1 > gpu1.creds\n  exthost serve --cluster gpu1.creds",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := settings.CheckName(args[0]); err != nil {
				return console.Usagef("exthost cluster invite gpu1 > gpu1.creds", "%v", err)
			}
			f, err := files(c, dir)
			if err != nil {
				return err
			}
			if err := keepPrivate(c); err != nil {
				return err
			}
			text, err := f.Invite(args[0])
			if errors.Is(err, hub.ErrInvited) {
				return &console.Error{
					Code: console.ExitFailed,
					Text: err.Error(),
					Hint: "exthost cluster revoke " + args[0] + " first, if its file is lost",
				}
			}
			if err != nil {
				return err
			}
			value := map[string]string{"node": args[0], "file": text}
			if err := c.Print(console.Document{Kind: "invitation", Value: value, Text: text}); err != nil {
				return &console.Error{
					Code: console.ExitFailed,
					Text: "nobody has seen the file: " + err.Error(),
					Hint: "exthost cluster revoke " + args[0] + ", then invite it again",
				}
			}
			c.Tell(args[0] + " is invited: take the file there, then exthost serve --cluster FILE")
			return nil
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

// keepPrivate makes stdout unreadable for other users if it is redirected to a file. The shell created the file with
// the usual mode.
func keepPrivate(c *console.Console) error {
	out, ok := c.Out.(*os.File)
	if !ok {
		return nil
	}
	info, err := out.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil // a terminal or a pipe
	}
	if err := out.Chmod(0o600); err != nil {
		return fmt.Errorf("others can read the file that the output goes to: %w", err)
	}
	return nil
}

func revoke(c *console.Console) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "revoke NODE",
		Short: "Put a host out of the cluster",
		Args:  console.One("the NODE to revoke"),
		Long: "Put a node out of the cluster: hubs that run close its connections within a second, and its\n" +
			"file opens nothing any more. The name may be invited anew, with another key.",
		Example: "  exthost cluster revoke gpu1",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := files(c, dir)
			if err != nil {
				return err
			}
			err = f.Revoke(args[0])
			if errors.Is(err, hub.ErrNotInvited) {
				return unknown(f, args[0])
			}
			if err != nil {
				return err
			}
			c.Tell(args[0] + " is revoked: hubs that run put it out within a second, and others when they next run")
			return nil
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

// unknown returns the error for a node that is not invited.
func unknown(f *hub.Files, node string) error {
	nodes, err := f.Nodes()
	if err != nil {
		return err
	}
	var known []string
	for _, n := range nodes {
		if n.Revoked.IsZero() {
			known = append(known, n.Node)
		}
	}
	e := &console.Error{Code: console.ExitNotFound, Text: fmt.Sprintf("no node %s is invited", node)}
	if near := text.Nearest(node, known); near != "" {
		e.Hint = "did you mean " + near + "?"
	}
	return e
}

// permitted is what exthost cluster permissions prints.
type permitted struct {
	Node      string   `json:"node"`
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	Stream    any      `json:"stream"` // the JetStream stream for policies of scope cluster

	bucket string
}

func permissions(c *console.Console) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "permissions NODE",
		Short: "Show what a node may say, for NATS servers of your own",
		Args:  console.One("the NODE"),
		Long: "Show the subjects that a node needs on NATS servers of your own, in the words of nats.conf and\n" +
			"of nsc. They are all that it needs, and they make true whom its messages are from: with wider\n" +
			"ones, one node can speak as another. Those that begin with $ are for policies of scope cluster,\n" +
			"as is the bucket of JetStream that the last lines make, once for the cluster.",
		Example: "  exthost cluster permissions gpu1\n  exthost cluster permissions gpu1 -o json",
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, _, err := hosts.Load(c)
			if err != nil {
				return err
			}
			name = cmp.Or(name, cfg.Cluster.Name, "main")
			for _, n := range []string{name, args[0]} {
				if err := settings.CheckName(n); err != nil {
					return console.Usagef("exthost cluster permissions gpu1", "%v", err)
				}
			}
			p := permitted{Node: args[0]}
			p.Publish, p.Subscribe = hub.Permissions(name, args[0])
			p.Stream, p.bucket = hub.Counters(name, replicas)
			return c.Print(console.Document{Kind: "permissions", Value: p, Text: p.text()})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the `NAME` of the cluster (default: cluster.name, else main)")
	return cmd
}

// replicas is the number of replicas of the cluster's counters on the operator's own NATS servers; hubs have the same
// number.
const replicas = 3

func (p *permitted) text() string {
	list := func(subjects []string) string { return `"` + strings.Join(subjects, `", "`) + `"` }
	return fmt.Sprintf("# nats.conf: of the user of %s\npermissions {\n  publish: {allow: [%s]}\n  subscribe: "+
		"{allow: [%s]}\n}\n\n# nsc\nnsc add user %[1]s --allow-pub '%[4]s' --allow-sub '%[5]s'\n\n"+
		"# nats, as an administrator of the account: for policies of scope cluster\nnats kv add %[6]s --replicas "+
		"%[7]d --history 1 --max-bucket-size %[8]d --marker-ttl 1m\n",
		p.Node, list(p.Publish), list(p.Subscribe), strings.Join(p.Publish, ","), strings.Join(p.Subscribe, ","),
		p.bucket, replicas, hub.CountersSize)
}
