// Runs up-child.ts; what it is compiled to is kept in the folder given, for the next child.
import { createJiti } from "jiti";

const jiti = createJiti(import.meta.url, { fsCache: process.env.CHILD_CACHE, sourceMaps: false });
await jiti.import("./up-child.ts");
