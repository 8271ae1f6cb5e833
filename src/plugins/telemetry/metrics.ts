type Labels = Readonly<Record<string, string>>;

/** Receives each value that a histogram observes. */
type Listener = (labels: Labels, value: number) => void;

/** A number with labels, as Prometheus and the control system read it. */
export interface Sample {
  readonly name: string;
  readonly labels: Labels;
  readonly value: number;
}

export interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  samples(): Sample[] | Promise<Sample[]>;
}

/** Maximum number of label sets of a metric: an unbounded label must not fill the memory. */
const MOST_SERIES = 1000;

/** The labels of one metric have the same order: their values distinguish them, and how many there are. */
function keyOf(labels: Labels): string {
  let key = "";
  for (const name in labels) key += `${labels[name]}\n`;
  return key;
}

/** A number that only grows. */
export class Counter implements Metric {
  readonly type = "counter";
  readonly name: string;
  readonly help: string;
  readonly #series = new Map<string, { labels: Labels; value: number }>();

  constructor(name: string, help: string) {
    this.name = name;
    this.help = help;
  }

  add(labels: Labels = {}, amount = 1): void {
    this.series(labels).value += amount;
  }

  /** The number for some labels: frequent callers keep a reference. */
  series(labels: Labels): { value: number } {
    const key = keyOf(labels);
    const known = this.#series.get(key);
    if (known) return known;
    const series = { labels, value: 0 };
    if (this.#series.size < MOST_SERIES) this.#series.set(key, series);
    return series;
  }

  samples(): Sample[] {
    return [...this.#series.values()].map((series) => ({ name: this.name, ...series }));
  }
}

/** A number that is computed when it is read. */
export class Gauge implements Metric {
  readonly type: "gauge" | "counter";
  readonly name: string;
  readonly help: string;
  readonly #read: () => readonly Omit<Sample, "name">[] | Promise<readonly Omit<Sample, "name">[]>;

  constructor(
    name: string,
    help: string,
    read: () => readonly Omit<Sample, "name">[] | Promise<readonly Omit<Sample, "name">[]>,
    type: "gauge" | "counter" = "gauge",
  ) {
    this.name = name;
    this.help = help;
    this.#read = read;
    this.type = type;
  }

  async samples(): Promise<Sample[]> {
    return (await this.#read()).map((sample) => ({ name: this.name, ...sample }));
  }
}

/** Counts of values below each of some bounds. */
export class Histogram implements Metric {
  readonly type = "histogram";
  readonly name: string;
  readonly help: string;
  readonly bounds: readonly number[];
  /** Its unit in OpenTelemetry. */
  readonly unit: string;
  readonly #series = new Map<string, Distribution>();
  readonly #listeners: Listener[] = [];

  constructor(
    name: string,
    help: string,
    bounds: readonly number[],
    { unit = "s" }: { readonly unit?: string } = {},
  ) {
    this.name = name;
    this.help = help;
    this.bounds = bounds;
    this.unit = unit;
  }

  observe(labels: Labels, value: number): void {
    this.series(labels).observe(value);
  }

  /** Calls `listener` with each value that is observed. */
  listen(listener: Listener): void {
    this.#listeners.push(listener);
  }

  /** The distribution for some labels: frequent callers keep a reference. */
  series(labels: Labels): Distribution {
    const key = keyOf(labels);
    const known = this.#series.get(key);
    if (known) return known;
    const series = new Distribution(labels, this.bounds, this.#listeners);
    if (this.#series.size < MOST_SERIES) this.#series.set(key, series);
    return series;
  }

  samples(): Sample[] {
    return [...this.#series.values()].flatMap((series) => series.samples(this.name));
  }
}

/** The part of a histogram that has one set of labels. */
export class Distribution {
  readonly #labels: Labels;
  readonly #bounds: readonly number[];
  /** Values by the first bound that contains them. */
  readonly #counts: number[];
  #sum = 0;
  #count = 0;
  readonly #listeners: readonly Listener[];

  constructor(labels: Labels, bounds: readonly number[], listeners: readonly Listener[]) {
    this.#listeners = listeners;
    this.#labels = labels;
    this.#bounds = bounds;
    this.#counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.#sum += value;
    this.#count++;
    let at = 0;
    while (at < this.#bounds.length && value > this.#bounds[at]!) at++;
    if (at < this.#bounds.length) this.#counts[at]!++;
    for (const listener of this.#listeners) listener(this.#labels, value);
  }

  samples(name: string): Sample[] {
    const labels = this.#labels;
    let below = 0;
    const buckets = this.#bounds.map((bound, at) => {
      below += this.#counts[at]!;
      return { name: `${name}_bucket`, labels: { ...labels, le: String(bound) }, value: below };
    });
    return [
      ...buckets,
      { name: `${name}_bucket`, labels: { ...labels, le: "+Inf" }, value: this.#count },
      { name: `${name}_sum`, labels, value: this.#sum },
      { name: `${name}_count`, labels, value: this.#count },
    ];
  }
}

/** Metrics in Prometheus' text format, version 0.0.4. */
export async function toPrometheus(metrics: readonly Metric[]): Promise<string> {
  const blocks = await Promise.all(
    metrics.map(async (metric) => {
      const lines = (await metric.samples()).map(({ name, labels, value }) => {
        const pairs = Object.entries(labels).map(([key, text]) => `${plain(key)}="${escapeLabel(text)}"`);
        return `${plain(name)}${pairs.length > 0 ? `{${pairs.join(",")}}` : ""} ${value}`;
      });
      const name = plain(metric.name);
      return [`# HELP ${name} ${metric.help}`, `# TYPE ${name} ${metric.type}`, ...lines].join("\n");
    }),
  );
  return `${blocks.join("\n")}\n`;
}

/** Names of OpenTelemetry have dots. */
function plain(name: string): string {
  return name.replaceAll(".", "_");
}

function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
