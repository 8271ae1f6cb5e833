import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, defineAgent } from "../../../src/index.ts";
import type { Behaviour, ImageRunner, Instance } from "../instances.ts";
import { StandInImages } from "../instances.ts";

const greeter = () =>
  defineAgent({
    name: "Greeter",
    version: "1.0.0",
    description: "Says hello",
    methods: { job_start: { run: async () => ({ message: "hello" }) } },
  });

/** Images that the stand-in for Docker pushed. A healthy one runs as the real service, in this process. */
export class PushedImages implements ImageRunner {
  readonly #folder: string;
  readonly #real: boolean;
  readonly #sick = new StandInImages();
  readonly #close = new Set<() => Promise<void>>();

  constructor(folder: string, options: { readonly real: boolean; readonly age?: number }) {
    this.#folder = folder;
    this.#real = options.real;
    this.#sick.age = options.age ?? this.#sick.age;
  }

  set age(seconds: number) {
    this.#sick.age = seconds;
  }

  has(image: string): boolean {
    return existsSync(this.#file(image));
  }

  digestOf(ref: string): string | undefined {
    const name = createHash("sha256").update(ref).digest("hex").slice(0, 32);
    const file = join(this.#folder, `digest-${name}`);
    return existsSync(file) ? /sha256:[0-9a-f]{64}/.exec(readFileSync(file, "utf8"))?.[0] : undefined;
  }

  async start(image: string, env: Readonly<Record<string, string>>): Promise<Instance> {
    const behaviour = readFileSync(this.#file(image), "utf8").trim() as Behaviour;
    if (behaviour !== "healthy" || !this.#real) {
      this.#sick.add(image, behaviour);
      return this.#sick.start(image, env);
    }
    const dataDir = mkdtempSync(join(tmpdir(), "svc-image-"));
    const service = createServer({
      agents: [greeter()],
      apiKey: env.SERVICE_API_KEY ?? "no-key-was-given-to-it",
      dataDir,
      logTo: () => undefined,
    });
    await service.listen({ host: "127.0.0.1", port: 0 });
    const stop = async () => {
      this.#close.delete(stop);
      await service.close();
      rmSync(dataDir, { recursive: true, force: true });
    };
    this.#close.add(stop);
    return { url: service.url ?? "", env, stop };
  }

  async close(): Promise<void> {
    await this.#sick.close();
    for (const stop of this.#close) await stop();
  }

  #file(image: string): string {
    return join(this.#folder, image.split("@sha256:")[1] ?? "none");
  }
}
