type Labels = Readonly<Record<string, string>>;

/** A number by labels, as Prometheus and the control system read it. */
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

/** Different label sets a metric may have: a label that turns out to be unbounded must not fill the memory. */
const MOST_SERIES = 1000;

/** The labels of one metric have the same names in the same order: their values tell them apart. */
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
    const key = keyOf(labels);
    const series = this.#series.get(key);
    if (series) series.value += amount;
    else if (this.#series.size < MOST_SERIES) this.#series.set(key, { labels, value: amount });
  }

  samples(): Sample[] {
    return [...this.#series.values()].map((series) => ({ name: this.name, ...series }));
  }
}

/** A number that is looked up when it is asked for. */
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

/** How often values fell below each of some bounds. */
export class Histogram implements Metric {
  readonly type = "histogram";
  readonly name: string;
  readonly help: string;
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, { labels: Labels; counts: number[]; sum: number; count: number }>();

  constructor(name: string, help: string, bounds: readonly number[]) {
    this.name = name;
    this.help = help;
    this.#bounds = bounds;
  }

  observe(labels: Labels, value: number): void {
    const key = keyOf(labels);
    let series = this.#series.get(key);
    if (!series) {
      if (this.#series.size >= MOST_SERIES) return;
      series = { labels, counts: this.#bounds.map(() => 0), sum: 0, count: 0 };
      this.#series.set(key, series);
    }
    series.sum += value;
    series.count++;
    // Bounds ascend: the first that holds the value and all after it count.
    for (let at = this.#bounds.length - 1; at >= 0 && value <= this.#bounds[at]!; at--) series.counts[at]!++;
  }

  samples(): Sample[] {
    return [...this.#series.values()].flatMap(({ labels, counts, sum, count }) => [
      ...this.#bounds.map((bound, at) => ({
        name: `${this.name}_bucket`,
        labels: { ...labels, le: String(bound) },
        value: counts[at]!,
      })),
      { name: `${this.name}_bucket`, labels: { ...labels, le: "+Inf" }, value: count },
      { name: `${this.name}_sum`, labels, value: sum },
      { name: `${this.name}_count`, labels, value: count },
    ]);
  }
}

/** Metrics in Prometheus' text format, version 0.0.4. */
export async function toPrometheus(metrics: readonly Metric[]): Promise<string> {
  const blocks = await Promise.all(
    metrics.map(async (metric) => {
      const lines = (await metric.samples()).map(({ name, labels, value }) => {
        const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escapeLabel(text)}"`);
        return `${name}${pairs.length > 0 ? `{${pairs.join(",")}}` : ""} ${value}`;
      });
      return [`# HELP ${metric.name} ${metric.help}`, `# TYPE ${metric.name} ${metric.type}`, ...lines].join(
        "\n",
      );
    }),
  );
  return `${blocks.join("\n")}\n`;
}

function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
