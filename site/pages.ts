/** A page of the site and the Markdown file that it is made from; both paths without a leading slash. */
export interface Page {
  readonly source: string;
  /** With the ending `.md`; the built page has `.html` instead. */
  readonly target: string;
  readonly title: string;
}

export interface Group {
  readonly title: string;
  readonly pages: readonly Page[];
}

/** All pages that are written by hand, in the order in which one reads them. */
export const GROUPS: readonly Group[] = [
  group("Start", [
    ["README.md", "index.md", "Introduction"],
    ["docs/index.md", "guide.md", "A path through the docs"],
    doc("agents", "Agents"),
    doc("models", "Models"),
    doc("chat", "Chat"),
    doc("files", "Files"),
    doc("isolate", "Isolate"),
    doc("limits", "Limits"),
    doc("durability", "Durability"),
    doc("schedules", "Schedules"),
    doc("testing", "Testing agents"),
    doc("debugging", "Fork and debug a job"),
    ["examples/README.md", "examples/index.md", "Examples"],
  ]),
  group("Run", [
    doc("cli", "Command line"),
    doc("settings", "Settings"),
    doc("admin", "Admin"),
    doc("api", "HTTP API"),
    doc("client", "Client"),
    doc("errors", "Errors"),
    doc("mcp", "Model Context Protocol"),
    doc("a2a", "Agent2Agent"),
    doc("agui", "AG-UI"),
  ]),
  group("Operate", [
    doc("deploy", "Deploy"),
    doc("deploy-server", "Your own server"),
    doc("deploy-pipelines", "Deploy from a pipeline"),
    doc("deploy-clouds", "Clouds"),
    doc("scale", "Scale"),
    doc("store", "Store"),
    doc("encryption", "Encryption"),
    doc("events", "Events"),
    doc("telemetry", "Telemetry"),
    doc("security", "Security"),
    doc("access", "Access"),
    doc("audit", "Audit log"),
  ]),
  group("Extend", [doc("plugins", "Plugins"), doc("platforms", "Platforms")]),
  group("Examples", [
    example("reply-desk", "Reply desk"),
    example("assistant", "Assistant"),
    example("contract-review", "Contract review"),
    example("invoice-audit", "Invoice audit"),
    example("log-watch", "Log watch"),
    example("llm-triage", "LLM triage"),
    example("refund-agent", "Refund agent"),
    example("refund-openai", "Refund agent with OpenAI Agents"),
    example("refund-graph", "Refund graph"),
    example("hello", "Hello"),
    example("audit-plugin", "A page in the admin"),
    example("ssh-docker", "A platform: SSH and Docker"),
  ]),
  group("Project", [
    ["CHANGELOG.md", "changelog.md", "Changelog"],
    ["CONTRIBUTING.md", "contributing.md", "Contributing"],
    ["SECURITY.md", "reporting.md", "Reporting a weakness"],
  ]),
];

/** The entries of the package, whose reference is made from their TSDoc. */
export const ENTRIES = [
  { name: "agent-control-service", file: "index" },
  { name: "agent-control-service/plugin", file: "plugin" },
  { name: "agent-control-service/store", file: "store" },
  { name: "agent-control-service/deploy", file: "deploy" },
  { name: "agent-control-service/testing", file: "testing" },
  { name: "agent-control-service/ai", file: "ai" },
  { name: "agent-control-service/postgres", file: "postgres" },
] as const;

type Row = readonly [source: string, target: string, title: string];

function group(title: string, rows: readonly Row[]): Group {
  return { title, pages: rows.map(([source, target, title]) => ({ source, target, title })) };
}

function doc(name: string, title: string): Row {
  return [`docs/${name}.md`, `${name}.md`, title];
}

function example(name: string, title: string): Row {
  return [`examples/${name}/README.md`, `examples/${name}.md`, title];
}
