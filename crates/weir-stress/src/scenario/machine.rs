//! What the machine is, for reports: figures of two machines are not compared.

/// The machine in a line.
pub(crate) fn describe() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let model =
        value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let kilobytes: f64 = memory.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{model}, {cores} CPUs, {:.0} GiB, Linux {}", kilobytes / 1_048_576.0, kernel.trim())
}
