import { crc32, deflateSync } from "node:zlib";
import { defineAgent, type FileValue, file } from "agent-control-service";
import * as v from "valibot";

/** A picture of one color, as PNG. */
export function png(
  width: number,
  height: number,
  [red, green, blue]: readonly [number, number, number],
): Buffer {
  const row = Buffer.concat([Buffer.from([0]), Buffer.alloc(width * 3, Buffer.from([red, green, blue]))]);
  const chunk = (type: string, data: Uint8Array) => {
    const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(Buffer.concat(Array.from({ length: height }, () => row)))),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** A PDF with one line of text on each page. */
export function pdf(lines: readonly string[]): Buffer {
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    `<< /Type /Pages /Kids [${lines.map((_, at) => `${4 + at * 2} 0 R`).join(" ")}] /Count ${lines.length} >>`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ...lines.flatMap((line, at) => {
      const text = `BT /F1 20 Tf 60 720 Td (${line.replace(/[()\\]/g, "\\$&")}) Tj ET`;
      return [
        `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents ${5 + at * 2} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
        `<< /Length ${text.length} >>\nstream\n${text}\nendstream`,
      ];
    }),
  ];
  let text = "%PDF-1.4\n";
  const offsets = objects.map((body, at) => {
    const offset = text.length;
    text += `${at + 1} 0 obj\n${body}\nendobj\n`;
    return offset;
  });
  const table = offsets.map((offset) => `${String(offset).padStart(10, "0")} 00000 n \n`).join("");
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${text.length}\n%%EOF`;
  return Buffer.from(text, "latin1");
}

/** A tone, as WAV. */
export function wav(): Buffer {
  const samples = Buffer.alloc(16_000);
  for (let at = 0; at < 8000; at++) samples.writeInt16LE(Math.round(8000 * Math.sin(at / 6)), at * 2);
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + samples.length, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(8000, 24);
  head.writeUInt32LE(16_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(samples.length, 40);
  return Buffer.concat([head, samples]);
}

/** What is shown to the person who decides: the names of the files that the job was given, `;` between them. */
const shownIn = (given: readonly FileValue[], names: string): FileValue[] =>
  names.split(";").flatMap((name) => given.find((one) => one.name === name) ?? []);

/** Asks about the files that it was given, and takes a file as the answer. */
export const gallery = defineAgent({
  name: "Gallery",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({
        files: v.array(file()),
        contract: v.optional(file({ accept: ["application/pdf"] })),
        show: v.optional(v.string(), ""),
      }),
      run: async ({ job, fields }) => {
        const item = await job.openCase({ id: `${job.id}-case`, name: "Files" });
        const made = await item.step("note", ({ file }) => file("note.txt", "made in a step of the case"));
        const shown = shownIn(fields.files, fields.show);
        const answer = await item.ask("check", {
          question: "Is this right?",
          fields: v.object({ signed: v.optional(file()), fine: v.boolean() }),
          ...(shown.length > 0 && { files: shown }),
        });
        await item.close({});
        const text = answer.signed && (await job.step("read", () => job.open(answer.signed!).text()));
        return { text: text ?? "", made };
      },
    },
  },
});
