"""Plots as SVG texts that stand alone, and pages that are no wider than others."""
import math
import textwrap

# Colours that differ for everybody (Okabe, Ito: "Color Universal Design", 2008).
COLOURS = {"weir": "#0072b2", "nginx": "#d55e00", "varnish": "#009e73", "haproxy": "#cc79a7", "trafficserver": "#e69f00", "floor": "#777777"}
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'
WIDTH = 1000


def write(path, height, parts):
    with open(path, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}">\n'
                f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")


def text(x, y, words, anchor="start"):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" {FONT}>{words}</text>'


def legend(names, x, y):
    parts = []
    for name in names:
        parts += [f'<rect x="{x}" y="{y - 10}" width="11" height="11" fill="{COLOURS[name]}"/>', text(x + 16, y, name)]
        x += 34 + 7 * len(name)
    return parts


def bars(path, title, rows):
    """rows: (words, server -> value), on a logarithmic axis around 1."""
    left, right, bar = 330, WIDTH - 60, 9
    values = [value for _, all_values in rows for value in all_values.values()] + [0.5, 2]
    low, high = math.log(min(values)) - 0.1, math.log(max(values)) + 0.1
    at = lambda value: left + (math.log(value) - low) / (high - low) * (right - left)
    parts, y = [text(12, 20, title)] + legend([name for name in COLOURS if name != "weir"], left, 20), 44
    top = y
    for words, all_values in rows:
        parts.append(text(12, y + 12, words))
        for name, value in all_values.items():
            x, end = sorted((at(1), at(value)))
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{max(end - x, 1):.1f}" height="{bar - 1}" fill="{COLOURS[name]}"><title>{name} {value:.2f}</title></rect>')
            y += bar
        y += 10 + (bar if len(all_values) < 2 else 0)
    grid = [value for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= math.log(value) <= high]
    lines = [f'<line x1="{at(value):.1f}" x2="{at(value):.1f}" y1="{top}" y2="{y}" stroke="{"#333" if value == 1 else "#e2e2e2"}"/>' for value in grid]
    write(path, y + 30, lines + parts + [text(at(value), y + 18, f"{value:g}", "middle") for value in grid])


def curve(path, title, lines):
    """lines: server -> [(x, y)], both axes logarithmic."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return
    box = (70, 40, WIDTH - 40, 360)
    (x0, x1), (y0, y1) = ((math.log10(min(axis)) - 0.1, math.log10(max(axis)) + 0.1) for axis in zip(*points))
    at = lambda x, y: (box[0] + (math.log10(x) - x0) / (x1 - x0) * (box[2] - box[0]), box[3] - (math.log10(y) - y0) / (y1 - y0) * (box[3] - box[1]))
    parts = [text(12, 20, title)] + legend(lines, 420, 20)
    for power in range(math.ceil(x0), math.floor(x1) + 1):
        x, _ = at(10 ** power, 10 ** y0)
        parts += [f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{box[1]}" y2="{box[3]}" stroke="#e2e2e2"/>', text(x, box[3] + 18, size(10 ** power), "middle")]
    for power in range(math.ceil(y0), math.floor(y1) + 1):
        _, y = at(10 ** x0, 10 ** power)
        parts += [f'<line x1="{box[0]}" x2="{box[2]}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e2e2e2"/>', text(box[0] - 8, y + 4, f"{10.0 ** power:g}", "end")]
    for name, line in lines.items():
        dots = [at(*point) for point in line]
        path_points = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f'<polyline points="{path_points}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[name]}"><title>{name}: {point[0]:.0f}, {point[1]:.3f}</title></circle>' for (x, y), point in zip(dots, line)]
    write(path, 400, parts)


def size(count):
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:g} {unit}"
        count /= 1000
    return f"{count:g} TB"


def wrapped(page, width=120):
    """Paragraphs and items no wider than a page is; tables and code as they are."""
    lines, words = [], []

    def end():
        if words:
            text_of = " ".join(words)
            indent = "  " if text_of.startswith("- ") else ""
            lines.extend(textwrap.wrap(text_of, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))
            words.clear()

    for line in page.split("\n"):
        if not line.strip() or line.startswith(("|", "#", "    ", "![")):
            end()
            lines.append(line)
            continue
        if line.startswith("- "):
            end()
        words.append(line.strip())
    end()
    return "\n".join(lines)
