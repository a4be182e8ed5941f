package exthost_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/exthost/exthost"

// house says which of our packages each package may import, and why. A package
// that is not listed may not exist.
var house = map[string]struct {
	may    []string
	reason string
}{
	"protocol":                    {nil, "shared by host and authors, so it drags nothing in"},
	"peers":                       {[]string{"protocol", "status"}, "the seam of host and cluster; neither imports the other"},
	"cluster/internal/stream":     {[]string{"cluster/internal/wire", "internal/inflight", "protocol"}, "carries responses over whatever carries calls"},
	"cluster/internal/natsclient": {nil, "sets up the client; what is sent is not its matter"},
	"cluster/internal/throttle":   {nil, "bounds lines of a log, whatever they say"},
	"cluster/internal/outbox":     {[]string{"cluster/internal/wire"}, "sends messages; what becomes of a call is not its matter"},
	"cluster/internal/pair":       {[]string{"cluster/internal/outbox", "cluster/internal/wire", "internal/inflight", "protocol"}, "knows no NATS; what a call is is not its matter"},
	"cluster/internal/wire":       {[]string{"internal/rawjson", "internal/nodename"}, "a format; who sends it is not its matter"},
	"internal/nodename":           {nil, "judges a word"},
	"internal/inflight":           {nil, "counts any work"},
	"internal/jsonrpc":            {[]string{"internal/rawjson"}, "knows none of our methods"},
	"internal/egress":             {nil, "connects to named hosts; for whom is not its matter"},
	"internal/confine":            {nil, "has the kernel confine a thread; imports little, because an init does not wait for packages"},
	"internal/limited":            {[]string{"internal/sweep"}, "starts a process with its mark; imports little, as internal/confine"},
	"internal/resident":           {nil, "gives memory back; imports little, as internal/confine"},
	"internal/sweep":              {[]string{"internal/coalesce"}, "finds and kills processes; imports little, as internal/confine"},
	"internal/guard":              {[]string{"internal/resident", "internal/sweep"}, "runs before the packages of a host"},
	"internal/nsinit":             {[]string{"internal/confine", "internal/limited", "internal/resident"}, "runs before the packages of a host"},
	"internal/sandbox":            {[]string{"internal/confine", "internal/egress", "internal/regular", "manifest/sandbox"}, "says what a thread may touch; what runs there is not its matter"},
	"internal/lineage":            {[]string{"internal/sweep"}, "compares processes; what is refused to whom is not its matter"},
	"internal/peer":               {nil, "names a process; what it may is not its matter"},
	"internal/process":            {[]string{"manifest/sandbox", "internal/confine", "internal/display", "internal/egress", "internal/guard", "internal/limited", "internal/lineage", "internal/nsinit", "internal/redact", "internal/resident", "internal/sandbox", "internal/sweep"}, "process hygiene is not about extensions; a secret in the environment has a form"},
	"internal/rawjson":            {nil, "edits bytes"},
	"internal/nearest":            {nil, "compares words"},
	"internal/literal":            {[]string{"internal/rawjson"}, "writes texts"},
	"internal/display":            {nil, "shortens and cleans texts"},
	"internal/owners":             {[]string{"internal/toolset", "protocol", "internal/rawjson", "tools"}, "reads lists; calls nothing"},
	"internal/mcpext":             {[]string{"protocol", "internal/display", "internal/rawjson"}, "merges declarations; who makes them is not its matter"},
	"internal/schema":             {[]string{"internal/display", "internal/rawjson"}, "checks values against schemas; whose they are is not its matter"},
	"internal/redact":             {[]string{"internal/display", "internal/nearest", "internal/rawjson"}, "masks texts"},
	"internal/cassette":           {[]string{"internal/rawjson", "internal/regular", "protocol"}, "a format; what is recorded and who replays it is not its matter"},
	"internal/recorder":           {[]string{"config/recording", "internal/below", "internal/cassette", "internal/redact", "internal/rotate", "protocol", "status"}, "queues and writes what it is handed"},
	"internal/player":             {[]string{"internal/cassette", "internal/display", "internal/inflight", "internal/jsonrpc", "internal/nearest", "internal/rawjson", "internal/regular", "manifest", "protocol"}, "answers from a cassette; who asks is not its matter"},
	"internal/glob":               {nil, "compares names"},
	"internal/regular":            {nil, "reads a file"},
	"internal/below":              {nil, "compares a path with a directory"},
	"internal/ownership":          {nil, "judges a file; what it says is not its matter"},
	"internal/atomicfile":         {nil, "writes a file"},
	"internal/rotate":             {[]string{"internal/regular"}, "writes and renames files"},
	"internal/envfile":            {[]string{"internal/strict", "internal/regular"}, "reads variables; whose they are is not its matter"},
	"internal/launcher":           {nil, "reads a command line"},
	"internal/shellwords":         {nil, "splits a line"},
	"internal/strict":             {[]string{"protocol", "internal/nearest"}, "decodes any file; what a key means is not its matter"},
	"internal/hookimport":         {[]string{"manifest", "internal/rawjson", "internal/nearest", "internal/glob"}, "reads the hooks of another program, for the command line"},
	"internal/latency":            {nil, "counts durations"},
	"internal/coalesce":           {nil, "runs any function"},
	"internal/broadcast":          {nil, "hands on anything"},
	"internal/journal":            {[]string{"internal/broadcast"}, "keeps log records"},
	"internal/wiretap":            {[]string{"internal/broadcast", "internal/rawjson", "protocol"}, "shows frames, but not what authenticates a caller"},
	"internal/daemon":             {[]string{"internal/lineage", "internal/peer", "internal/sweep"}, "finds a running host, and states the marks of its processes; what is said to it is not its matter"},
	"internal/relay":              {[]string{"internal/clienttoken", "internal/daemon", "protocol", "internal/relay/pipes", "internal/relay/variables"}, "carries bytes between a client and a host; loads neither configuration nor engine"},
	"internal/clientconfig":       {[]string{"manifest", "internal/clientconfig/entry", "internal/clientconfig/known", "internal/foreign", "internal/process", "internal/rawjson", "internal/redact", "internal/launcher", "internal/literal", "internal/shellwords", "internal/secrets", "manifest/oauth"}, "a helper of the program: reads files of others"},
	"internal/foreign":            {nil, "knows keys of other programs; who reads their files is not its matter"},
	"config/otel":                 {nil, "reads settings; what is sent is not its matter"},
	"internal/traces":             {[]string{"", "config/otel", "internal/display", "internal/redact", "protocol", "status"}, "sends spans; alone links OpenTelemetry"},
	"internal/accesstoken":        {nil, "verifies tokens with keys; alone links a JOSE library"},
	"internal/mcphttp":            {[]string{"protocol", "internal/jsonrpc", "internal/rawjson", "internal/sse"}, "MCP's HTTP wire as messages"},
	"internal/sse":                {nil, "frames events, whatever they hold"},
	"internal/mcpclient":          {[]string{"protocol", "internal/display", "internal/inflight", "internal/jsonrpc", "internal/mcphttp", "internal/rawjson", "internal/sse"}, "transports to one server each"},
	"internal/relay/pipes":        {nil, "hands descriptors over; what passes is not its matter"},
	"internal/relay/variables":    {nil, "compares environments"},

	"cluster/internal/directory":   {[]string{"cluster/internal/wire", "internal/rawjson", "peers", "protocol", "status"}, "knows who is there; how messages travel is not its matter"},
	"cluster/internal/link":        {[]string{"internal/inflight", "cluster/internal/natsclient", "cluster/internal/wire"}, "carries messages, whatever they say"},
	"cluster/internal/quota":       {[]string{"governance/quota"}, "counts in a bucket; how a request gets there is not its matter"},
	"cluster/internal/credentials": {[]string{"config/cluster", "internal/nodename", "internal/ownership", "internal/regular"}, "reads files; who connects is not its matter"},
	"cluster/hub":                  {[]string{"cluster/internal/throttle", "cluster/internal/quota", "cluster/internal/credentials", "cluster/internal/wire", "internal/atomicfile", "internal/dirlock", "internal/inflight", "internal/nodename", "internal/ownership", "internal/regular"}, "runs a server and says who its users are; alone links a server of NATS"},
	"cluster/services":             {[]string{"cluster/internal/natsclient", "cluster/internal/credentials", "config/cluster", "internal/inflight", "internal/jsonrpc", "internal/rawjson", "manifest", "protocol", "runtime"}, "connects to services; how they are called and supervised is not its matter"},

	"manifest":                 {[]string{"internal/tojson", "manifest/oauth", "manifest/sandbox", "protocol", "internal/diagnostics", "internal/glob", "internal/nearest", "internal/regular", "internal/shellwords", "internal/strict", "manifest/internal/configschema", "manifest/internal/mcpjson", "manifest/internal/words"}, "the model of plugin.toml"},
	"manifest/oauth":           {nil, "what a manifest says of a login; who signs in is not its matter"},
	"manifest/sandbox":         {[]string{"internal/strict"}, "what a manifest asks for; who enforces it is not its matter"},
	"discovery":                {[]string{"internal/nearest", "internal/ownership", "internal/regular", "manifest", "protocol"}, "a worker: finds candidates"},
	"runtime":                  {[]string{"internal/sandbox", "manifest", "protocol", "internal/display", "internal/inflight", "internal/jsonrpc", "internal/process", "internal/mcpclient", "internal/mcphttp", "internal/rawjson", "internal/tojson", "internal/wiretap", "internal/jsonrpc/ndjson", "internal/limited", "internal/cassette", "internal/recorder", "internal/player"}, "a worker: runs one instance"},
	"supervisor":               {[]string{"protocol"}, "a worker: keeps one named thing alive"},
	"tools":                    {[]string{"protocol", "internal/rawjson", "internal/nearest", "internal/display", "internal/schema"}, "a worker: names and validates, calls nothing"},
	"hooks":                    {[]string{"protocol", "internal/inflight", "internal/process", "internal/sandbox", "internal/rawjson", "internal/glob"}, "a worker: ordered callbacks"},
	"governance":               {[]string{"governance/internal/background", "governance/internal/decisionid", "governance/internal/strictjson", "protocol", "internal/display", "internal/inflight", "internal/rawjson", "internal/glob"}, "a worker: decides, changes, records"},
	"governance/builtin":       {[]string{"governance/quota", "governance", "governance/internal/settings", "governance/internal/strictjson", "governance/pins", "governance/results", "protocol", "internal/display", "internal/glob", "internal/rawjson", "internal/redact"}, "the policies without a process"},
	"governance/quota":         {[]string{"internal/inflight"}, "uses up what it is given; who gives it is not its matter"},
	"governance/approval":      {[]string{"governance", "internal/display", "internal/rawjson", "internal/redact"}, "asks people; who they are is not its matter"},
	"governance/pins":          {[]string{"governance/internal/strictjson", "internal/atomicfile", "internal/below", "internal/display", "internal/rawjson", "internal/regular", "protocol"}, "compares descriptors with what was approved"},
	"governance/results":       {[]string{"protocol", "internal/rawjson"}, "keeps what is too big to pass"},
	"governance/audit":         {[]string{"governance", "protocol", "internal/display", "internal/glob", "internal/rawjson", "internal/redact", "internal/regular", "internal/rotate"}, "records; who reads it needs no host"},
	"config":                   {[]string{"internal/faults", "internal/toolset", "discovery", "manifest/oauth", "manifest/sandbox", "manifest", "protocol", "governance", "governance/builtin", "internal/dirlock", "config/internal/edit", "config/internal/exposure", "config/internal/hidden", "internal/atomicfile", "internal/below", "internal/envfile", "internal/foreign", "internal/ownership", "internal/strict", "internal/regular", "config/internal/overrides", "config/internal/references", "config/internal/words", "internal/secrets", "config/internal/dialect", "internal/clienttoken", "config/otel", "internal/toollist", "config/recording", "config/cluster"}, "decodes the option structs of the workers, and has policies judge their own"},
	"config/internal/exposure": {[]string{"internal/ownership", "internal/strict"}, "looks who may read files, and reports it at their keys"},
	"config/internal/hidden":   {[]string{"internal/secrets"}, "replaces values in texts"},
	"config/cluster":           {[]string{"config/internal/edit", "internal/nodename", "manifest"}, "says how a host joins others; who does is not its matter"},
	"config/recording":         {[]string{"manifest"}, "says what is recorded; who does is not its matter"},
	"config/clientedit":        {[]string{"config", "config/internal/edit", "internal/clienttoken", "internal/strict", "protocol"}, "changes files; what a host makes of them is not its matter"},
	"config/internal/dialect":  {[]string{"internal/foreign", "internal/strict", "protocol"}, "rewrites trees; what a key means is not its matter"},
	"config/internal/edit":     {[]string{"internal/below", "internal/atomicfile", "internal/dirlock", "internal/strict", "protocol"}, "changes lists and tables in texts"},
	"internal/clienttoken":     {nil, "judges texts; whose they are is not its matter"},
	"internal/dirlock":         {nil, "locks a directory"},
	"internal/tojson":          {nil, "encodes values, wherever they were stated"},
	"sdk":                      {[]string{"protocol", "internal/jsonrpc", "internal/rawjson", "internal/jsonrpc/ndjson"}, "the author's side of the wire"},
	"sdk/python":               {nil, "a file to embed"},
	"sdk/node":                 {nil, "files to embed"},

	"config/internal/overrides":  {[]string{"internal/strict"}, "makes trees; what a key means is not its matter"},
	"config/internal/references": {[]string{"internal/secrets", "internal/strict"}, "finds texts; who may have the secrets is not its matter"},
	"config/internal/words":      {[]string{"manifest"}, "judges a word"},
	"internal/secrets":           {nil, "reads references; where the values are is not its matter"},
	"internal/secrets/stored":    {[]string{"internal/display", "internal/envfile", "internal/ownership", "internal/process", "internal/secrets"}, "finds values; who gets them is not its matter"},
	"internal/secrets/agefile":   {[]string{"internal/atomicfile", "internal/dirlock", "internal/ownership", "internal/regular", "internal/secrets"}, "keeps values; alone links age"},
	"internal/secrets/keystore":  {[]string{"internal/secrets"}, "keeps values; alone links the clients of keyrings"},
	"internal/secrets/given":     {[]string{"config", "discovery", "internal/secrets", "internal/strict", "manifest", "protocol", "runtime"}, "puts values into what is started; where they come from is not its matter"},

	"internal/clientconfig/entry": {[]string{"internal/clientconfig/known", "internal/literal", "internal/strict"}, "changes texts; which files they are of is not its matter"},
	"internal/clientconfig/known": {nil, "a table"},

	"governance/celpolicy":                         {[]string{"governance", "governance/internal/settings", "governance/internal/strictjson", "internal/rawjson", "protocol"}, "a policy without a process, apart for what it links"},
	"governance/internal/background":               {nil, "runs jobs; what they do is not its matter"},
	"governance/internal/decisionid":               {nil, "makes ids; whose they are is not its matter"},
	"governance/internal/failures":                 {[]string{"governance", "internal/rawjson", "protocol"}, "rewrites an error; what is decided about it is not its matter"},
	"governance/internal/settings":                 {[]string{"governance", "internal/nearest", "internal/strict"}, "decodes what operators state for a policy"},
	"governance/internal/strictjson":               {[]string{"internal/rawjson"}, "decodes JSON"},
	"governance/grpcpolicy":                        {[]string{"governance", "governance/grpcpolicy/pluginv1", "protocol", "runtime", "internal/process", "internal/rawjson"}, "a policy's process and its wire, as an instance that a host runs"},
	"governance/grpcpolicy/pluginv1":               {nil, "generated"},
	"governance/mcppolicy":                         {[]string{"governance", "governance/internal/failures", "protocol", "internal/rawjson", "internal/nearest"}, "asks through a caller; what runs is not its matter"},
	"governance/interceptorpolicy":                 {[]string{"governance", "governance/internal/failures", "governance/internal/strictjson", "internal/display", "internal/glob", "internal/inflight", "internal/nearest", "internal/rawjson", "protocol"}, "asks through a caller; what runs is not its matter"},
	"governance/interceptorpolicy/interceptortest": {[]string{"internal/rawjson"}, "imitates a server for tests"},
	"governance/nativepolicy":                      {[]string{"governance", "protocol", "internal/rawjson", "internal/nearest"}, "asks through a caller; what runs is not its matter"},

	"status":                           {[]string{"governance", "governance/approval", "governance/pins", "hooks", "internal/latency", "manifest", "protocol", "supervisor"}, "data of all that a host reports"},
	"internal/stats":                   {[]string{"governance", "governance/approval", "hooks", "internal/broadcast", "internal/display", "internal/latency", "internal/rawjson", "internal/redact", "protocol", "runtime", "status", "supervisor"}, "counts what the status shows"},
	"internal/diagnostics":             {[]string{"protocol"}, "keeps diagnostics, whosever they are"},
	"internal/offers":                  {[]string{"internal/atomicfile", "internal/process", "internal/rawjson", "internal/regular", "protocol", "runtime", "tools"}, "knows specs and handshakes, and no units"},
	"internal/unit":                    {[]string{"internal/sandbox", "config", "discovery", "hooks", "internal/coalesce", "internal/offers", "internal/ownership", "internal/permit", "internal/player", "internal/process", "internal/recorder", "internal/redact", "internal/regular", "internal/stats", "internal/wiretap", "manifest", "protocol", "runtime", "status", "supervisor", "tools", "internal/limited", "internal/secrets", "internal/secrets/given", "internal/unit/variables"}, "runs and supervises one thing; knows no host"},
	"internal/permit":                  {[]string{"config", "discovery", "internal/consent", "internal/process", "manifest", "protocol", "internal/secrets", "internal/secrets/given"}, "decides what may start; how it starts is not its matter"},
	"internal/consent":                 {[]string{"config", "discovery", "internal/atomicfile", "internal/ownership", "internal/process", "internal/regular", "manifest", "protocol"}, "compares files with what was agreed to; who asks is not its matter"},
	"internal/lockfile":                {[]string{"internal/atomicfile", "internal/dirlock", "internal/literal", "internal/regular", "internal/strict", "manifest", "protocol"}, "reads and writes one file; what it locks is not its matter"},
	"internal/store":                   {[]string{"internal/atomicfile", "internal/dirlock", "internal/ownership", "internal/regular"}, "keeps trees of files; where they come from is not its matter"},
	"internal/download":                {[]string{"internal/egress", "internal/outbound"}, "fetches files; what they hold is not its matter"},
	"internal/outbound":                {[]string{"internal/egress"}, "connects; what is said there is not its matter"},
	"internal/logins":                  {[]string{"internal/atomicfile", "internal/dirlock", "internal/display", "internal/inflight", "internal/secrets/agefile", "protocol", "internal/shellwords"}, "keeps grants; how a user signs in is not its matter"},
	"internal/signin":                  {[]string{"internal/display", "internal/logins", "internal/mcphttp", "internal/outbound", "protocol"}, "signs a user in; who uses the login is not its matter"},
	"internal/oauthtest":               {nil, "imitates servers for tests"},
	"internal/locked":                  {[]string{"discovery", "internal/atomicfile", "internal/dirlock", "internal/lockfile", "internal/regular", "internal/store", "manifest", "protocol"}, "compares packages with the lock file; where they come from is not its matter"},
	"internal/packages":                {[]string{"internal/download", "internal/lockfile", "internal/packages/credentials", "internal/packages/gitrepo", "internal/packages/program", "internal/packages/unpacked", "internal/process", "internal/regular", "internal/store", "manifest"}, "resolves and fetches packages; who runs them is not its matter"},
	"internal/packages/credentials":    {[]string{"internal/process", "internal/regular"}, "reads files of npm and pip; what is fetched is not its matter"},
	"internal/packages/unpacked":       {[]string{"internal/locked", "internal/lockfile", "internal/process", "internal/regular", "internal/store"}, "reads files; where they come from is not its matter"},
	"internal/packages/gitrepo":        {[]string{"internal/download", "internal/packages/program"}, "asks git for files"},
	"internal/packages/program":        {[]string{"internal/display", "internal/process"}, "runs a program for an answer"},
	"internal/packages/registrytest":   {nil, "imitates registries for tests"},
	"internal/unit/variables":          {[]string{"internal/permit", "internal/process", "manifest"}, "rewrites a transport"},
	"internal/units":                   {[]string{"internal/coalesce", "internal/redact", "internal/unit"}, "knows units; what they are for is not its matter"},
	"internal/program":                 {nil, "looks at an executable"},
	"cluster":                          {[]string{"cluster/internal/throttle", "cluster/internal/credentials", "config/cluster", "internal/nodename", "cluster/internal/directory", "cluster/internal/link", "cluster/internal/pair", "cluster/internal/stream", "cluster/internal/wire", "internal/glob", "internal/rawjson", "mcpserver", "peers", "protocol", "status", "cluster/internal/quota", "governance/quota"}, "joins the parts of a node; the host is an interface"},
	"internal/far":                     {[]string{"discovery", "internal/gateway", "internal/rawjson", "internal/snapshot", "internal/unit", "manifest", "peers", "protocol", "runtime", "status", "supervisor"}, "makes units of what other nodes have; how messages reach them is not its matter"},
	"internal/operations":              {[]string{"governance/approval", "governance/audit", "governance/results", "internal/dispatch", "internal/display", "internal/policies", "internal/rawjson", "internal/snapshot", "internal/unit", "peers", "protocol", "status", "tools"}, "asks nodes and answers them; how messages travel is not its matter"},
	"internal/starts":                  {[]string{"internal/toolset", "internal/rawjson", "internal/unit", "manifest", "protocol", "runtime", "tools"}, "watches units; calls none"},
	"internal/clients":                 {[]string{"config", "internal/clienttoken", "status"}, "knows tokens; who asks is not its matter"},
	"internal/bridge":                  {[]string{"config", "discovery", "internal/envfile", "internal/offers", "internal/ownership", "internal/process", "internal/unit", "manifest", "protocol", "runtime", "status", "supervisor", "tools", "internal/secrets/given", "internal/strict", "internal/unit/variables"}, "a destination is a unit"},
	"internal/policies":                {[]string{"governance/quota", "config", "discovery", "governance", "internal/clienttoken", "governance/approval", "governance/audit", "governance/builtin", "governance/interceptorpolicy", "governance/mcppolicy", "governance/nativepolicy", "governance/pins", "governance/results", "internal/below", "internal/display", "internal/glob", "internal/nearest", "internal/permit", "internal/process", "internal/rawjson", "internal/stats", "internal/unit", "manifest", "protocol", "runtime", "status", "supervisor", "tools", "internal/secrets/given"}, "the process of a policy is a unit"},
	"internal/watch":                   {[]string{"config", "discovery", "internal/nearest", "internal/offers", "manifest", "protocol", "runtime", "status"}, "asks its host through an interface"},
	"internal/snapshot":                {[]string{"governance/pins", "internal/offers", "internal/faults", "internal/toolset", "config", "discovery", "governance/results", "hooks", "internal/bridge", "internal/display", "internal/mcpext", "internal/permit", "internal/policies", "internal/rawjson", "internal/unit", "internal/watch", "manifest", "protocol", "runtime", "status", "tools", "internal/secrets/given", "internal/toolindex", "internal/toollist"}, "holds units, policies and tools; calls none"},
	"internal/dispatch":                {[]string{"internal/faults", "internal/toolset", "governance", "governance/pins", "governance/results", "hooks", "internal/bridge", "internal/inflight", "internal/nearest", "internal/policies", "internal/rawjson", "internal/redact", "internal/snapshot", "internal/starts", "internal/stats", "internal/unit", "manifest", "protocol", "runtime", "status", "supervisor", "tools", "internal/toollist", "peers"}, "carries a call; knows no sessions"},
	"internal/elicit":                  {[]string{"internal/dispatch", "internal/rawjson", "internal/unit", "protocol", "runtime", "status"}, "asks a caller to sign in; how that is done is not its matter"},
	"internal/gateway":                 {[]string{"internal/toolset", "internal/tasks", "governance", "internal/dispatch", "internal/display", "internal/inflight", "internal/mcpext", "internal/owners", "internal/rawjson", "internal/snapshot", "internal/stats", "internal/unit", "manifest", "protocol", "runtime", "status", "tools", "internal/units"}, "puts sessions before dispatch; reaches the host through an interface"},
	"internal/toolindex":               {[]string{"internal/display", "internal/rawjson", "tools"}, "ranks tools by words; who asks is not its matter"},
	"internal/toollist":                {[]string{"internal/glob", "internal/rawjson", "internal/toolset", "protocol", "tools"}, "chooses from what a session sees; carries no call"},
	"internal/toolset":                 {[]string{"internal/display", "internal/glob", "internal/mcpext", "internal/nearest", "internal/rawjson", "protocol", "tools"}, "matches names with what a catalog has; carries no call"},
	"internal/faults":                  {[]string{"internal/glob", "manifest"}, "draws numbers; calls nothing"},
	"internal/tasks":                   {[]string{"internal/dispatch", "internal/rawjson", "internal/toolset", "internal/unit", "protocol", "runtime"}, "knows the callers of tasks; carries none out"},
	"httpserver/internal/bearertoken":  {nil, "compares tokens; whose they are is not its matter"},
	"httpserver/internal/confined":     {[]string{"mcpserver", "protocol", "tools"}, "gives clients their toolsets, which it asks a host about"},
	"httpserver/internal/resourcemeta": {nil, "publishes what a server is told"},
	"httpserver/internal/certificate":  {[]string{"protocol", "status"}, "reads two files"},
	"httpserver/internal/refusals":     {[]string{"internal/display", "status"}, "counts what it is handed"},
	"httpserver/internal/caller":       {[]string{"internal/lineage", "internal/peer"}, "names a process; what it may is not its matter"},
	"httpserver/internal/conns":        {nil, "bounds connections, whatever they ask for"},
	"httpserver/internal/dashboard":    {nil, "serves files"},
	"httpserver/internal/metrics":      {[]string{"", "governance", "supervisor", "status"}, "reads the measures of a host"},
	"mcpserver/internal/wire":          {[]string{"protocol", "internal/jsonrpc", "internal/mcphttp", "internal/rawjson"}, "builds messages and keeps no state"},
	"mcpserver/internal/forward":       {[]string{"mcpserver/internal/wire", "protocol", "internal/jsonrpc", "internal/mcphttp", "internal/rawjson", "internal/sse"}, "carries requests by an interface, and knows no session"},
	"mcpserver/internal/questions":     {[]string{"protocol", "internal/jsonrpc"}, "matches responses with requests, and knows no session"},
	"mcpserver/internal/table":         {nil, "is a data structure"},
	"":                                 {[]string{"internal/toolindex", "internal/toolset", "config", "discovery", "governance", "governance/approval", "governance/pins", "governance/results", "hooks", "internal/bridge", "internal/clients", "internal/coalesce", "internal/diagnostics", "internal/dispatch", "internal/gateway", "internal/inflight", "internal/journal", "internal/offers", "internal/permit", "internal/policies", "internal/process", "internal/rawjson", "internal/redact", "internal/snapshot", "internal/starts", "internal/stats", "internal/unit", "internal/watch", "internal/wiretap", "manifest", "protocol", "runtime", "status", "supervisor", "tools", "internal/elicit", "internal/recorder", "internal/toollist", "config/recording", "internal/far", "internal/program", "internal/units", "peers", "internal/operations", "governance/quota"}, "wires the rooms"},
	"mcpserver":                        {[]string{"protocol", "internal/jsonrpc", "internal/mcphttp", "internal/rawjson", "mcpserver/internal/forward", "mcpserver/internal/questions", "mcpserver/internal/table", "mcpserver/internal/wire", "internal/jsonrpc/ndjson"}, "serves any Backend, so never the root"},
	"httpserver":                       {[]string{"httpserver/internal/refusals", "httpserver/internal/certificate", "httpserver/internal/bearertoken", "httpserver/internal/confined", "httpserver/internal/resourcemeta", "", "status", "mcpserver", "governance/audit", "protocol", "tools", "internal/mcphttp", "internal/accesstoken", "internal/clienttoken", "httpserver/internal/caller", "httpserver/internal/conns", "httpserver/internal/dashboard", "httpserver/internal/metrics", "internal/toolindex", "httpserver/internal/streams", "httpserver/internal/eventstream"}, "mounts the fronts on HTTP"},
	"httpserver/internal/streams":      {[]string{"internal/sse"}, "writes answers, whatever they hold"},

	"internal/check":    {[]string{"", "internal/egress", "internal/sandbox", "manifest/sandbox", "status", "manifest", "protocol", "runtime", "supervisor", "tools", "internal/jsonrpc", "internal/process", "internal/rawjson", "internal/redact", "internal/nearest", "internal/display", "internal/rawclient"}, "a helper of the program above the workers: drives extensions, as the host and by hand"},
	"internal/scaffold": {[]string{"internal/below", "internal/atomicfile", "manifest", "sdk/node", "sdk/python"}, "a helper of the program: writes files"},

	"governance/governancetest":      {[]string{"governance", "protocol"}, "holds every kind of policy against the same rules"},
	"internal/process/processtest":   {[]string{"internal/dirlock"}, "asserts that nothing is left behind; builds programs for tests once at a time"},
	"cluster/internal/natstest":      {[]string{"internal/process/processtest"}, "runs servers for tests"},
	"internal/benchtest":             {[]string{"internal/process/processtest"}, "the floor that benchmarks are held against"},
	"internal/stormtest":             {nil, "sizes of tests, and the clock"},
	"internal/stormtest/entries":     {nil, "what a killed process noted"},
	"internal/jsonrpc/ndjson":        {[]string{"internal/jsonrpc", "internal/rawjson"}, "lines as messages"},
	"internal/rawclient":             {[]string{"manifest", "protocol", "runtime", "internal/display", "internal/jsonrpc", "internal/process", "internal/rawjson", "internal/jsonrpc/ndjson", "internal/limited"}, "starts what the worker would start, and talks to it by hand"},
	"manifest/internal/configschema": {nil, "checks a document"},
	"manifest/internal/words":        {[]string{"internal/strict"}, "judges a word"},
	"manifest/internal/mcpjson":      {[]string{"internal/shellwords", "protocol", "internal/strict"}, "decodes servers; which are valid is not its matter"},
}

// TestHouse holds the import graph against the table.
func TestHouse(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Doc,Name", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath, Doc, Name string
			Imports               []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := ours(p.ImportPath)
		if p.Doc == "" && p.Name != "main" {
			t.Errorf("package %s has no comment that says what it is", p.ImportPath)
		}
		for _, imp := range p.Imports {
			if program(ours(imp)) && !program(name) {
				t.Errorf("package %q imports %q, which is a part of the program", name, ours(imp))
			}
			if command(name) && command(ours(imp)) && !slices.Contains(commandsShare, ours(imp)) {
				t.Errorf("package %q imports %q: commands share nothing but %q", name, ours(imp), commandsShare)
			}
		}
		if free(name) {
			continue
		}
		rule, known := house[name]
		if !known {
			t.Errorf("package %q is not in the table: give it a room, a reason and what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			if imp != module && !strings.HasPrefix(imp, module+"/") {
				continue
			}
			if !slices.Contains(rule.may, ours(imp)) {
				t.Errorf("package %q imports %q: not allowed, because it is %s", name, ours(imp), rule.reason)
			}
		}
	}
}

// heavy are modules that a Go program gets only when it asks for them: by
// exthost.PolicyKinds, by mounting the HTTP server, or by stores of secrets and logins.
var heavy = []string{"cel.dev", "github.com/antlr4-go", "google.golang.org", "github.com/prometheus", "github.com/spf13",
	"filippo.io", "github.com/zalando", "go.opentelemetry.io", "github.com/godbus", "golang.org/x/oauth2", "github.com/modelcontextprotocol", "github.com/nats-io"}

// TestLibraryIsLight holds what an embedding program links against that list.
func TestLibraryIsLight(t *testing.T) {
	for _, pkg := range []string{".", "./config", "./mcpserver"} {
		out, err := exec.Command("go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		for imp := range strings.Lines(string(out)) {
			if slices.ContainsFunc(heavy, func(prefix string) bool { return strings.HasPrefix(imp, prefix+"/") }) {
				t.Errorf("package %s links %s", pkg, imp)
			}
		}
	}
}

// TestNoHub holds the program with the build tag nohub against what the tag promises.
func TestNoHub(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "nohub", "-deps", "./cmd/exthost").CombinedOutput()
	if err != nil || strings.Contains(string(out), "nats-server") {
		t.Errorf("with nohub the program still has a server: %v", err)
	}
}

func ours(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// program packages are the program; nothing outside of it imports them.
func program(name string) bool {
	return strings.HasPrefix(name, "cmd/") || name == "internal/cli" || command(name)
}

// command packages are the commands of the program, and what they share.
func command(name string) bool { return strings.HasPrefix(name, "internal/cli/") }

// commandsShare are the command packages that others may import.
var commandsShare = []string{"internal/cli/trust", "internal/cli/console", "internal/cli/hosts", "internal/cli/nodes", "internal/cli/toolcall"}

// free packages may import anything: the program, its helpers above the workers,
// and examples. Nothing but them imports them.
func free(name string) bool {
	return program(name) || strings.HasPrefix(name, "examples/") ||
		name == "internal/bundled" || name == "internal/peertest" || name == "docs"
}
